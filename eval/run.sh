#!/usr/bin/env bash
# Runs one lm_eval task against a server: eval/run.sh TASK BASE_URL MODEL_NAME TOKENIZER_DIR OUT_DIR [lm_eval arguments]
#   TASK  gsm_tiny       400 held-out problems, 5-shot, /v1/completions with token ids
#         gsm_tiny_chat  the same problems as chat messages, /v1/chat/completions
#         gsm_tiny_ll    right or wrong final number, by log-likelihood (echo + logprobs)
#         gsm8k_local    the 1,319 GSM8K test problems, 5-shot, /v1/completions
#         gsm8k_chat     the same as chat messages
# OUT_DIR gets results_*.json and, per task, samples_*.jsonl. Environment: CONCURRENT (256), MAX_TOKS (256), LIMIT (all), TIMEOUT (of a
# request, seconds; lm_eval's), LM_EVAL (build/venv's, else the one on PATH). Prints the score. Nothing is fetched from a hub.
set -euo pipefail
if [ $# -lt 5 ]; then sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; fi
task=$1 url=${2%/} model=$3 tokenizer=$4 out=$5; shift 5
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
venv=$here/../build/venv
if [ -z "${LM_EVAL:-}" ]; then
  if [ -x "$venv/bin/lm_eval" ]; then LM_EVAL=$venv/bin/lm_eval; else LM_EVAL=lm_eval; fi
fi

file=$task client=local-completions path=v1/completions
extra=()
case $task in
  gsm_tiny|gsm8k_local) ;;
  gsm_tiny_chat) file=gsm_tiny ;;
  gsm8k_chat) file=gsm8k_local ;;
  gsm_tiny_ll) python3 "$here/make_ll.py" "$here/gsm_tiny_test.jsonl" "$work/gsm_tiny_ll.jsonl" ;;
  *) echo "eval/run.sh: unknown task '$task'; allowed: gsm_tiny, gsm_tiny_chat, gsm_tiny_ll, gsm8k_local, gsm8k_chat" >&2; exit 2 ;;
esac
arguments="model=$model,base_url=$url/$path,tokenizer=$tokenizer,tokenizer_backend=huggingface"
case $task in *_chat)
  client=local-chat-completions path=v1/chat/completions
  arguments="model=$model,base_url=$url/$path,eos_string=<|im_end|>"
  extra=(--apply_chat_template) ;;
esac
arguments+=",num_concurrent=${CONCURRENT:-256},max_retries=3,max_gen_toks=${MAX_TOKS:-256}${TIMEOUT:+,timeout=$TIMEOUT}"

sed -e "s|@HERE@|$here|g" -e "s|@WORK@|$work|g" "$here/$file.yaml.in" > "$work/$file.yaml"
export HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 HF_HOME="$work/hf" TOKENIZERS_PARALLELISM=false
"$LM_EVAL" run --model "$client" --include_path "$work" --tasks "$file" --model_args "$arguments" \
  --output_path "$out" --log_samples ${LIMIT:+--limit "$LIMIT"} ${extra[@]+"${extra[@]}"} "$@"
