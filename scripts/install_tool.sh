#!/usr/bin/env bash
# Puts the command-line tool and the plugin of Nsight Systems where they belong: scripts/install_tool.sh PREFIX [PROFILE]
. "$(dirname "$0")/common.sh"
where=${1:?usage: install_tool.sh PREFIX [debug|release]}
from=$target/${2:-release}
plugin=$where/share/raskio/nsys-plugins/raskio_nic
install -D -m 755 "$from/raskio" "$where/bin/raskio"
install -D -m 755 "$from/raskio-nsys-nic" "$plugin/raskio-nsys-nic"
install -D -m 644 nic/nsys-plugin.yaml "$plugin/nsys-plugin.yaml"
for shell in bash zsh fish; do
  case $shell in
    bash) file=share/bash-completion/completions/raskio ;;
    zsh) file=share/zsh/site-functions/_raskio ;;
    fish) file=share/fish/vendor_completions.d/raskio.fish ;;
  esac
  install -d "$(dirname "$where/$file")"
  "$from/raskio" completions "$shell" >"$where/$file"
done
say "installed $where/bin/raskio and $plugin"
