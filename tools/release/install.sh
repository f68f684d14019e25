#!/bin/sh
# Installs sluice @VERSION@ on Linux or macOS.
#
#   sh install.sh [--dry-run] [--dir FOLDER]
#
# It takes the archive for this machine from the folder of this script or, if it is not there, from the address in
# SLUICE_DOWNLOAD, compares it with the checksum below, and puts the one program that is in it into FOLDER:
# /usr/local/bin for root, ~/.local/bin for anybody else. It changes nothing else.
set -eu

version='@VERSION@'
url=${SLUICE_DOWNLOAD:-@URL@}
sums='@SUMS@'

say() { printf '%s\n' "$*"; }
fail() {
	printf 'install.sh: %s\n' "$*" >&2
	exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }

# platform prints the platform of this machine, as the archives are named.
platform() {
	case $(uname -s) in
	Linux) system=linux ;;
	Darwin) system=darwin ;;
	*) fail "there is no archive for $(uname -s) here; for Windows, use the zip file" ;;
	esac
	case $(uname -m) in
	x86_64 | amd64) machine=amd64 ;;
	aarch64 | arm64) machine=arm64 ;;
	*) fail "there is no archive for $(uname -m); build it from the source with \"make build\"" ;;
	esac
	printf '%s_%s\n' "$system" "$machine"
}

# fetch downloads the address $1 into the file $2.
fetch() {
	if has curl; then
		curl -fsSL -o "$2" "$1" || fail "cannot download $1"
	elif has wget; then
		wget -q -O "$2" "$1" || fail "cannot download $1"
	else
		fail 'curl or wget is needed to download; or put the archive beside this script'
	fi
}

# checksum prints the SHA-256 of a file.
checksum() {
	if has sha256sum; then
		sha256sum <"$1" | cut -d ' ' -f 1
	elif has shasum; then
		shasum -a 256 <"$1" | cut -d ' ' -f 1
	else
		fail 'sha256sum or shasum is needed to check the archive'
	fi
}

main() {
	dry= dir=
	while [ $# -gt 0 ]; do
		case $1 in
		--dry-run) dry=1 ;;
		--dir)
			[ $# -gt 1 ] || fail '--dir needs a folder'
			dir=$2
			shift
			;;
		-h | --help)
			say 'Usage: sh install.sh [--dry-run] [--dir FOLDER]'
			say "Installs sluice $version. SLUICE_DOWNLOAD is the address of the folder with the archives."
			exit 0
			;;
		*) fail "there is no option $1; --help shows those that there are" ;;
		esac
		shift
	done
	if [ -z "$dir" ]; then
		if [ "$(id -u)" = 0 ]; then dir=/usr/local/bin; else dir=$HOME/.local/bin; fi
	fi

	name=sluice_${version}_$(platform) || exit 1
	archive=$name.tar.gz
	want=$(printf '%s\n' "$sums" | sed -n "s/  $archive\$//p")
	[ -n "$want" ] || fail "this release has no $archive"
	beside=$(dirname "$0")/$archive
	if [ -f "$beside" ]; then
		from=$beside
	elif [ -n "$url" ]; then
		from=${url%/}/$archive
	else
		fail "$archive is not beside this script; put it there, or set SLUICE_DOWNLOAD to the address of its folder"
	fi

	say "sluice $version"
	say "  from      $from"
	say "  SHA-256   $want"
	say "  to        $dir/sluice"
	if [ -n "$dry" ]; then
		say 'Nothing was changed (--dry-run).'
		exit 0
	fi

	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' HUP INT TERM
	if [ "$from" != "$beside" ]; then
		fetch "$from" "$work/$archive"
		from=$work/$archive
	fi
	got=$(checksum "$from")
	[ "$got" = "$want" ] || fail "the SHA-256 of $archive is $got: this is not the file that was released; nothing was installed"
	tar -xzf "$from" -C "$work"
	mkdir -p "$dir" || fail "cannot create $dir; choose another folder with --dir"
	# A new name first: a running server keeps its file, and nobody ever sees half of one.
	cp "$work/$name/sluice" "$dir/.sluice.new" || fail "cannot write to $dir; choose another folder with --dir"
	chmod 0755 "$dir/.sluice.new"
	mv -f "$dir/.sluice.new" "$dir/sluice"

	say "Installed: $("$dir/sluice" version)"
	case :$PATH: in
	*":$dir:"*) say 'Start it with "sluice serve".' ;;
	*) say "$dir is not in PATH. Add it, or start it with \"$dir/sluice serve\"." ;;
	esac
	say "To uninstall, delete $dir/sluice."
}

# The last line: a script that was cut off on its way does nothing.
main "$@"
