{{- if .Example -}}
# This formula was built without an address: "make release URL=https://…" writes the real one.
{{ end -}}
class Sluice < Formula
  desc "Inference gateway: models of many providers behind one OpenAI-compatible API"
  homepage "https://example.com/sluice"
  version "{{.Version}}"
  license "Apache-2.0"
{{range $system, $archives := .Systems}}
  on_{{$system}} do
{{- range $archives}}
    on_{{.Machine}} do
      url "{{.URL}}"
      sha256 "{{.Sum}}"
    end
{{- end}}
  end
{{end}}
  def install
    bin.install "sluice"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/sluice.bash" => "sluice"
    zsh_completion.install "completions/_sluice"
    fish_completion.install "completions/sluice.fish"
  end

  def post_install
    (var/"sluice").mkpath
    (var/"sluice").chmod 0700
  end

  service do
    run [opt_bin/"sluice", "serve", "--data", var/"sluice"]
    working_dir var/"sluice"
    keep_alive successful_exit: false
    log_path var/"log/sluice.log"
    error_log_path var/"log/sluice.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/sluice version")
  end
end
