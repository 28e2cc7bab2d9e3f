#!/usr/bin/env bash
# A server on all GPUs that copies every batch, under load, as those who watch it see it: observe_gpu.py asks. Called by
# gpu_check.sh; BUNDLE has widelane and widelane-server. Leaves trace.json and observed.json in OUT.
#
#   tests/gpu_observe.sh BUNDLE OUT [OPTION OF THE SERVER ...]
set -euo pipefail

readonly usage='usage: tests/gpu_observe.sh BUNDLE OUT [OPTION OF THE SERVER ...]'
readonly bundle=${1:?$usage} out=${2:?$usage}
shift 2
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/gpu_server.sh
. "$here/gpu_server.sh"

"$bundle/bin/widelane" bench model --profile text-54k "$work/text.safetensors" >/dev/null
if [ $# -eq 0 ]; then set -- --devices gpu --route copied; fi
start_server --model "text=$work/text.safetensors" "$@"
python3 "$here/observe_gpu.py" --widelane "$bundle/bin/widelane" --grpc "$grpc" --http "$http" --out "$out"
start=$EPOCHREALTIME
stop_server
awk -v start="$start" -v end="$EPOCHREALTIME" 'BEGIN { printf "stopped in %.2f s\n", end - start }'
