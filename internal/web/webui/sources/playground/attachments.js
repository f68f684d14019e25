// Files of a message: pictures, documents, sounds and texts, read and bounded.
(() => {
  "use strict";

  const play = window.sluicePlay ||= {};
  const { make } = window.sluiceText;
  const mostFiles = 10, mostPixels = 1536, MiB = 1 << 20;
  // The API takes 32 MiB a request, and a file grows by a third on its way.
  const most = { "a text": MiB / 2, "a PDF": 10 * MiB, "a sound": 10 * MiB, "a message": 16 * MiB };
  const texts = /\.(txt|md|csv|tsv|json|jsonl|xml|ya?ml|toml|ini|log|html?|css|js|ts|jsx|tsx|py|go|rs|java|kt|c|h|cc|cpp|cs|rb|php|swift|sh|sql|diff|patch)$/i;

  const address = (file) => new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(new Error(file.name + " cannot be read."));
    reader.readAsDataURL(file);
  });

  function bounded(file, kind) {
    if (file.size > most[kind]) throw new Error(`${file.name} has ${play.size(file.size)}. ${kind[0].toUpperCase() + kind.slice(1)} may have at most ${play.size(most[kind])}.`);
  }

  // size says how many bytes something has.
  play.size = (n) => n < 1024 ? n + " bytes" : n < MiB ? Math.round(n / 1024) + " KB" : (n / MiB).toFixed(1).replace(/\.0$/, "") + " MB";

  // picture makes a picture smaller if it is large: the browser keeps it with the chat.
  async function picture(file) {
    const map = await createImageBitmap(file).catch(() => { throw new Error(file.name + " cannot be read as a picture."); });
    const scale = Math.min(1, mostPixels / Math.max(map.width, map.height));
    const canvas = make("canvas");
    canvas.width = Math.round(map.width * scale);
    canvas.height = Math.round(map.height * scale);
    canvas.getContext("2d").drawImage(map, 0, 0, canvas.width, canvas.height);
    return { type: "image_url", image_url: { url: canvas.toDataURL(file.type === "image/png" && file.size < 300_000 ? "image/png" : "image/jpeg", 0.85) } };
  }

  // part reads a file as a part of a message. It throws what its reader should be told.
  async function part(file, pictures) {
    if (file.type.startsWith("image/") && file.type !== "image/svg+xml") {
      if (!pictures) throw new Error("This model does not accept images. Choose another model to send " + file.name + ".");
      return picture(file);
    }
    if (file.type === "application/pdf") {
      bounded(file, "a PDF");
      return { type: "file", file: { filename: file.name, file_data: await address(file) } };
    }
    const sound = file.type.match(/^audio\/(?:x-)?(wav|wave|vnd\.wave|mpeg|mp3)$/)?.[1];
    if (sound) {
      bounded(file, "a sound");
      return { type: "input_audio", input_audio: { data: (await address(file)).split(",")[1], format: sound.startsWith("mp") ? "mp3" : "wav" }, name: file.name };
    }
    if (file.type.startsWith("text/") || texts.test(file.name)) {
      bounded(file, "a text");
      const text = await file.text();
      if (text.includes("\0")) throw new Error(file.name + " is not a text.");
      return { type: "text", text: file.name + ":\n```\n" + text + "\n```", name: file.name };
    }
    throw new Error(file.name + " cannot be sent. Models take pictures, PDFs, WAV and MP3 sounds, and texts.");
  }

  // attach adds files to the parts of a message, and returns what is wrong with those that it has not added.
  play.attach = async (files, parts, pictures) => {
    const wrong = [];
    for (const file of files) {
      if (parts.length >= mostFiles) { wrong.push(`A message takes at most ${mostFiles} files.`); break; }
      try {
        const next = await part(file, pictures);
        if (JSON.stringify([...parts, next]).length > 4 / 3 * most["a message"]) throw new Error(`The files of a message may have at most ${play.size(most["a message"])} together.`);
        parts.push(next);
      } catch (error) { wrong.push(error.message); }
    }
    return wrong.join(" ");
  };

  // nameOf names a part that is a file; empty for pictures and what was typed.
  play.nameOf = (p) => p.file?.filename || p.name || "";

  // chip shows a file, with a button that removes it if remove is given.
  play.chip = (p, n, remove) => {
    const name = play.nameOf(p);
    const el = make(remove ? "button" : "span", remove ? "thumb" : name ? "file-chip" : "");
    el.append(name ? make("span", "", name) : Object.assign(make("img", remove ? "" : "shot"), { src: p.image_url.url, alt: remove ? "" : "A picture that you sent" }));
    if (remove) {
      el.type = "button";
      el.setAttribute("aria-label", name ? "Remove " + name : "Remove picture " + n);
      el.append(make("span", "cross", "✕"));
      el.addEventListener("click", remove);
    }
    return el;
  };
})();
