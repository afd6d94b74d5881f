#!/usr/bin/env bash
# Bundles the console's editor: build.sh OUTPUT_FOLDER. Needs npm; node_modules stays beside this script.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
mkdir -p "$1"
output="$(cd "$1" && pwd)"
cd "$here"
npm ci --silent
node_modules/.bin/esbuild editor.js --bundle --minify --format=esm --target=es2022 --log-level=warning --outfile="$output/editor.part.js"
# The licences of everything in the bundle, as they ask for.
for licence in node_modules/@codemirror/*/LICENSE node_modules/@lezer/*/LICENSE node_modules/{crelt,style-mod,w3c-keyname,@marijn/find-cluster-break}/LICENSE; do
    printf '%s\n\n' "$(dirname "${licence#node_modules/}")"; cat "$licence"; printf '\n'
done >"$output/LICENSES.txt"
mv "$output/editor.part.js" "$output/editor.js"
