#include "model/config_fields.h"

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/suggest.h"

namespace quire::model {
namespace {

namespace json = boost::json;

constexpr ConfigField consumed(std::string_view name) { return consumed_field(name); }
constexpr ConfigField ignorable(std::string_view name) { return {name, Fate::kIgnorable, {}}; }
constexpr ConfigField neutral(std::string_view name, std::string_view values = "[]") { return neutral_field(name, values); }
constexpr ConfigField length(std::string_view name) { return {name, Fate::kLength, {}}; }

constexpr std::array kArithmeticFields = {
    consumed("architectures"), consumed("model_type"), consumed("hidden_size"), consumed("intermediate_size"), consumed("num_hidden_layers"),
    consumed("num_attention_heads"), consumed("num_key_value_heads"), consumed("head_dim"), consumed("vocab_size"),
    consumed("max_position_embeddings"), consumed("rms_norm_eps"), consumed("rope_theta"), consumed("rope_scaling"), consumed("rope_parameters"),
    consumed("attention_bias"), consumed("mlp_bias"), consumed("tie_word_embeddings"), consumed("dtype"), consumed("torch_dtype"),
    consumed("eos_token_id"), consumed("bos_token_id"),

    // Arithmetic that files can ask for and that is not built, or is not the family's.
    neutral("hidden_act", R"(["silu", "swish"])"), neutral("hidden_activation", R"(["silu", "swish"])"), neutral("pretraining_tp", "[1]"),
    neutral("sliding_window"), neutral("use_sliding_window", "[false]"), neutral("max_window_layers"), neutral("layer_types"),
    neutral("attention_chunk_size"), consumed("quantization_config"), consumed("compression_config"), neutral("quantization"),
    neutral("partial_rotary_factor", "[1]"), neutral("rotary_pct", "[1]"), neutral("rotary_dim"), neutral("original_max_position_embeddings"),
    neutral("rope_interleaved", "[false]"), neutral("rope_interleave", "[false]"), neutral("rope_local_base_freq"), neutral("rope_ratio", "[1]"),
    neutral("no_rope_layers"), neutral("no_rope_layer_interval"), neutral("alibi", "[false]"), neutral("use_alibi", "[false]"),
    neutral("attn_logit_softcapping"), neutral("final_logit_softcapping"), neutral("query_pre_attn_scalar"), neutral("clip_qkv"),
    neutral("attention_multiplier"), neutral("embedding_multiplier", "[1]"), neutral("residual_multiplier", "[1]"), neutral("logits_scaling", "[1]"),
    neutral("logit_scale", "[1]"), neutral("scale_emb", "[1]"), neutral("scale_depth"), neutral("dim_model_base"), neutral("use_qk_norm", "[false]"),
    neutral("qk_layernorm", "[false]"), neutral("qk_norm", "[false]"), neutral("attention_sinks", "[false]"), neutral("qkv_bias", "[false]"),
    neutral("use_bias", "[false]"), neutral("bias", "[false]"), neutral("lm_head_bias", "[false]"), neutral("parallel_attn", "[false]"),
    neutral("use_parallel_residual", "[false]"), neutral("norm_type", R"(["rmsnorm", "rms_norm"])"), neutral("num_experts", "[0]"),
    neutral("num_local_experts", "[0]"), neutral("n_routed_experts", "[0]"), neutral("num_experts_per_tok", "[0]"),
    neutral("num_nextn_predict_layers", "[0]"), neutral("is_encoder_decoder", "[false]"), neutral("add_cross_attention", "[false]"),
    neutral("pruned_heads", "[{}]"), neutral("per_layer_config"), neutral("vision_config"), neutral("text_config"), neutral("audio_config"),
    neutral("num_kv_shared_layers", "[0]"), neutral("sliding_window_pattern"), neutral("_sliding_window_pattern"),
    neutral("use_bidirectional_attention", "[false]"), neutral("use_mrope", "[false]"), neutral("kv_cache_scheme"), neutral("attention_type", R"(["full_attention"])"),

    length("max_sequence_length"), length("max_seq_len"), length("max_seq_length"), length("seq_length"), length("seq_len"), length("n_positions"),
    length("model_max_length"), length("max_target_positions")};

constexpr std::array kOriginAndTrainingFields = {
    // Where a file came from, and how Python should load it. auto_map names code of the repository itself; `architectures` decides here.
    ignorable("_name_or_path"), ignorable("name_or_path"), ignorable("_commit_hash"), ignorable("transformers_version"),
    ignorable("transformers.js_config"), ignorable("auto_map"), ignorable("custom_pipelines"), ignorable("tokenizer_class"),
    ignorable("processor_class"), ignorable("unsloth_version"), ignorable("unsloth_fixed"), ignorable("_attn_implementation"),
    ignorable("attn_implementation"), ignorable("_attn_implementation_autoset"), ignorable("_attn_implementation_internal"),
    ignorable("_experts_implementation"), ignorable("_flash_attn_2_enabled"), ignorable("use_flash_attention"), ignorable("use_flash_attention_2"),
    ignorable("base_model_tp_plan"), ignorable("base_model_pp_plan"), ignorable("torchscript"), ignorable("use_bfloat16"),
    ignorable("tf_legacy_loss"), ignorable("neftune_noise_alpha"), ignorable("is_llama_config"), ignorable("model_name"), ignorable("license"),

    // Training only.
    ignorable("initializer_range"), ignorable("initializer_factor"), ignorable("attention_dropout"), ignorable("hidden_dropout"),
    ignorable("hidden_dropout_prob"), ignorable("attention_probs_dropout_prob"), ignorable("attn_pdrop"), ignorable("embd_pdrop"),
    ignorable("resid_pdrop"), ignorable("resid_dropout"), ignorable("embd_dropout"), ignorable("dropout"), ignorable("mlp_dropout"),
    ignorable("classifier_dropout"), ignorable("gradient_checkpointing"), ignorable("router_aux_loss_coef"), ignorable("output_router_logits"),
    ignorable("loss_type"), ignorable("max_z_loss"), ignorable("z_loss_coefficient"), ignorable("train_seq_len"), ignorable("fused_rms_norm"),
    ignorable("fused_cross_entropy"), ignorable("ep_size")};

constexpr std::array kPythonAndGenerationFields = {
    // How a Python forward pass returns its results or keeps its cache; heads and tasks of other model kinds.
    ignorable("use_cache"), ignorable("output_attentions"), ignorable("output_hidden_states"), ignorable("output_scores"), ignorable("output_logits"),
    ignorable("return_dict"), ignorable("return_dict_in_generate"), ignorable("chunk_size_feed_forward"), ignorable("is_decoder"),
    ignorable("cross_attention_hidden_size"), ignorable("tie_encoder_decoder"), ignorable("finetuning_task"), ignorable("task_specific_params"),
    ignorable("problem_type"), ignorable("id2label"), ignorable("label2id"), ignorable("num_labels"), ignorable("prefix"), ignorable("summary_type"),
    ignorable("summary_use_proj"), ignorable("summary_activation"), ignorable("summary_proj_to_labels"), ignorable("summary_first_dropout"),
    ignorable("cache_implementation"), ignorable("cache_config"),

    // Token ids and defaults of generation: the tokenizer and generation_config.json say what counts.
    ignorable("pad_token_id"), ignorable("unk_token_id"), ignorable("sep_token_id"), ignorable("cls_token_id"), ignorable("mask_token_id"),
    ignorable("decoder_start_token_id"), ignorable("forced_bos_token_id"), ignorable("forced_eos_token_id"), ignorable("temperature"),
    ignorable("top_k"), ignorable("top_p"), ignorable("min_p"), ignorable("top_h"), ignorable("typical_p"), ignorable("epsilon_cutoff"),
    ignorable("eta_cutoff"), ignorable("do_sample"), ignorable("num_beams"), ignorable("num_beam_groups"), ignorable("diversity_penalty"),
    ignorable("length_penalty"), ignorable("repetition_penalty"), ignorable("encoder_repetition_penalty"), ignorable("no_repeat_ngram_size"),
    ignorable("encoder_no_repeat_ngram_size"), ignorable("exponential_decay_length_penalty"), ignorable("early_stopping"), ignorable("max_length"),
    ignorable("min_length"), ignorable("max_new_tokens"), ignorable("min_new_tokens"), ignorable("max_time"), ignorable("stop_strings"),
    ignorable("num_return_sequences"), ignorable("bad_words_ids"), ignorable("suppress_tokens"), ignorable("begin_suppress_tokens"),
    ignorable("sequence_bias"), ignorable("renormalize_logits"), ignorable("remove_invalid_values"), ignorable("penalty_alpha"),
    ignorable("guidance_scale"), ignorable("token_healing"), ignorable("watermarking_config"), ignorable("constraints"), ignorable("force_words_ids"),
    ignorable("low_memory"), ignorable("dola_layers"), ignorable("generation_config")};

constexpr std::array<std::span<const ConfigField>, 3> kTables = {kArithmeticFields, kOriginAndTrainingFields, kPythonAndGenerationFields};

const ConfigField* find_field(std::string_view name, std::span<const ConfigField> of_family) {
  for (const auto table : {of_family, kTables[0], kTables[1], kTables[2]}) {
    const auto found = std::find_if(table.begin(), table.end(), [name](const ConfigField& f) { return f.name == name; });
    if (found != table.end()) return &*found;
  }
  return nullptr;
}

bool same_value(const json::value& a, const json::value& b) {
  const auto x = finite_number(a), y = finite_number(b);
  return x && y ? *x == *y : a == b;
}

// layer_types lists one attention kind per layer; only full attention is built.
bool all_full_attention(const json::value& value) {
  const json::array* list = value.if_array();
  return list != nullptr &&
         std::all_of(list->begin(), list->end(), [](const json::value& v) { return v.is_string() && v.get_string() == "full_attention"; });
}

void check_neutral(const ConfigField& field, const json::value& value, Findings& findings) {
  if (value.is_null()) return;
  if (field.name == "layer_types" && all_full_attention(value)) return;
  const json::value accepted = json::parse(json::string_view(field.neutral.data(), field.neutral.size()));
  std::string allowed = "absent or null";
  for (const json::value& one : accepted.get_array()) {
    if (same_value(one, value)) return;
    allowed += " or " + shown(one);
  }
  findings.unsupported(std::string(field.name) + " = " + shown(value) + " is not implemented (only " + allowed + ")");
}

void check_length(const ConfigField& field, const json::value& value, const json::object& config, Findings& findings) {
  if (value.is_null()) return;
  const json::value* positions = config.if_contains("max_position_embeddings");
  const auto stated = finite_number(value);
  const auto limit = positions == nullptr ? std::nullopt : finite_number(*positions);
  if (!stated || (limit && *stated < *limit))
    findings.wrong(std::string(field.name) + " = " + shown(value) +
                   " contradicts max_position_embeddings = " + (positions == nullptr ? "(absent)" : shown(*positions)));
}

}  // namespace

void check_config_fields(const json::object& config, std::span<const ConfigField> of_family, Findings& findings) {
  std::vector<std::string_view> names;
  for (const auto table : kTables)
    for (const ConfigField& field : table) names.push_back(field.name);
  for (const auto& entry : config) {
    const std::string_view name(entry.key().data(), entry.key().size());
    const ConfigField* field = find_field(name, of_family);
    if (field == nullptr) {
      findings.unsupported("unknown field " + shown_text(name) + " = " + shown(entry.value()) + did_you_mean(name, names) +
                           ", which may change the model's results");
      continue;
    }
    if (field->fate == Fate::kNeutral) check_neutral(*field, entry.value(), findings);
    if (field->fate == Fate::kLength) check_length(*field, entry.value(), config, findings);
  }
}

}  // namespace quire::model
