// The scale ledger of a command line: which question its flags ask, and the answer from the checkpoint's headers and scale tensors.
// Reads no weights; must not know a device or the server.
#pragma once
#include <memory>
#include <string>

#include "base/result.h"
#include "config/options.h"
#include "config/resolved.h"
#include "kv/store/kv_format.h"
#include "model/checkpoint.h"
#include "model/kv_scales.h"

namespace quire::commands {

// Of a run. Dummy weights have no scales.
[[nodiscard]] Result<model::ScaleLedger> run_ledger(const config::ResolvedConfig& config);

// The weights of a run, opened: every tensor is where and what it should be, and none is left over but for what `ledger` accounts for.
[[nodiscard]] Result<std::unique_ptr<model::WeightSource>> open_run_weights(const config::ResolvedConfig& config, const model::ScaleLedger& ledger);

// Of a question: `kv_format` is what the explanation found. The checkpoint must be one that `serve` reads.
struct LedgerQuestion {
  std::string model_dir;
  kv::KvFormat kv_format;
  const config::Options& options;
};
[[nodiscard]] Result<model::ScaleLedger> explained_ledger(const LedgerQuestion& question);

// The table and what is to be warned of; lines end in '\n'.
[[nodiscard]] std::string ledger_text(const model::ScaleLedger& ledger);

}  // namespace quire::commands
