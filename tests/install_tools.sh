#!/usr/bin/env bash
# A browser and a TeX for the tests of pages, where the machine has none: from Debian's packages, as root or with sudo.
set -euo pipefail

missing=()
command -v chromium || command -v chromium-browser || command -v google-chrome || missing+=(chromium)
command -v pdflatex || missing+=(texlive-latex-base)
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get; then
    echo "The tests of pages need ${missing[*]}: please install it, so that it is on the PATH." >&2
    exit 1
fi
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -qq -y --no-install-recommends "${missing[@]}"
