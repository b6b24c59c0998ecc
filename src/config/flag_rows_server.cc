// Rows of the flag table: API, HTTP server, logs, `quire run`, the program itself. A table.
#include "config/flag_table.h"

namespace quire::config {
namespace {

using K = ValueKind;
using G = FlagGroup;

constexpr std::string_view kTls = "TLS (put a proxy in front)";
constexpr std::string_view kTools = "tool calls";

// One row, one line.
// clang-format off
constexpr FlagRow kRows[] = {
    // API
    {.name = "chat-template", .help = "Template file, or the template itself; default: the tokenizer's", .group = G::kApi},
    {.name = "chat-template-content-format", .fallback = "auto", .allowed = "auto|string|openai", .help = "How message content reaches the template", .group = G::kApi, .fate = Fate::kNotBuilt, .fate_text = "choosing the template's content form", .audience = Audience::kServe},
    {.name = "default-chat-template-kwargs", .kind = K::kJson, .fallback = "{}", .help = "Template variables for every request", .group = G::kApi, .fate = Fate::kNotBuilt, .fate_text = "default template variables", .audience = Audience::kServe},
    {.name = "trust-request-chat-template", .kind = K::kBool, .fallback = "false", .help = "Requests may bring templates", .group = G::kApi, .fate = Fate::kNotBuilt, .fate_text = "templates from requests", .audience = Audience::kServe},
    {.name = "allow-control-tokens-in-content", .kind = K::kBool, .fallback = "false", .help = "Text of special tokens in messages becomes those tokens", .group = G::kApi},
    {.name = "response-role", .fallback = "assistant", .help = "Role of answers", .group = G::kApi, .audience = Audience::kServe},
    {.name = "return-tokens-as-token-ids", .kind = K::kBool, .fallback = "false", .help = "Log-probability tokens as token_id:N", .group = G::kApi, .audience = Audience::kServe},
    {.name = "enable-prompt-tokens-details", .kind = K::kBool, .fallback = "false", .help = "Cached tokens in usage", .group = G::kApi, .audience = Audience::kServe},
    {.name = "enable-force-include-usage", .kind = K::kBool, .fallback = "false", .help = "Usage in every stream", .group = G::kApi, .audience = Audience::kServe},
    {.name = "enable-tokenizer-info-endpoint", .kind = K::kBool, .fallback = "false", .help = "Serve /tokenizer_info", .group = G::kApi, .audience = Audience::kServe},
    {.name = "max-prompts-per-request", .kind = K::kInt, .fallback = "1024", .allowed = "1..1048576", .help = "Prompts times n in one body", .group = G::kApi, .audience = Audience::kServe},
    {.name = "max-n", .kind = K::kInt, .fallback = "128", .allowed = "1..65536", .help = "Largest n of a request", .group = G::kApi, .audience = Audience::kServe},
    {.name = "max-stop-strings", .kind = K::kInt, .fallback = "64", .allowed = "0..4096", .help = "Stop strings of a request", .group = G::kApi, .audience = Audience::kServe},
    {.name = "enable-auto-tool-choice", .kind = K::kBool, .fallback = "false", .help = "Tools when the model wants", .group = G::kApi, .fate = Fate::kNotBuilt, .fate_text = kTools, .audience = Audience::kServe},
    {.name = "tool-call-parser", .help = "Form of tool calls", .group = G::kApi, .fate = Fate::kNotBuilt, .fate_text = kTools, .audience = Audience::kServe},
    {.name = "tool-parser-plugin", .help = "Tool parser from a file", .group = G::kApi, .fate = Fate::kNotBuilt, .fate_text = kTools, .audience = Audience::kServe},
    {.name = "tool-server", .help = "Server of built-in tools", .group = G::kApi, .fate = Fate::kNotBuilt, .fate_text = kTools, .audience = Audience::kServe},
    {.name = "exclude-tools-when-tool-choice-none", .kind = K::kBool, .fallback = "false", .help = "Hide tools from the template", .group = G::kApi, .fate = Fate::kNotBuilt, .fate_text = kTools, .audience = Audience::kServe},
    {.name = "fingerprint-mode", .fallback = "none", .allowed = "none|full|hash|custom", .help = "system_fingerprint in answers", .group = G::kApi, .fate = Fate::kNotBuilt, .fate_text = "system fingerprints", .audience = Audience::kServe},
    {.name = "fingerprint-value", .help = "Text of the fingerprint", .group = G::kApi, .fate = Fate::kNotBuilt, .fate_text = "system fingerprints", .audience = Audience::kServe},

    // HTTP server
    {.name = "host", .fallback = "all interfaces", .help = "Address to listen on", .group = G::kHttp, .audience = Audience::kServe},
    {.name = "port", .kind = K::kInt, .fallback = "8000", .allowed = "0..65535", .help = "Port; 0: any free one, printed", .group = G::kHttp, .audience = Audience::kServe},
    {.name = "uds", .help = "Unix socket instead of host and port", .group = G::kHttp, .audience = Audience::kServe},
    {.name = "api-key", .kind = K::kTextList, .help = "Keys that clients must send (any one) for all but /health, /ready, /ping and the three files of the page; default: VLLM_API_KEY", .group = G::kHttp, .audience = Audience::kServe, .accumulates = true, .secret = true},
    {.name = "allowed-origins", .kind = K::kJsonTextList, .fallback = "[\"*\"]", .help = "CORS origins", .group = G::kHttp, .audience = Audience::kServe},
    {.name = "allowed-methods", .kind = K::kJsonTextList, .fallback = "[\"*\"]", .help = "CORS methods", .group = G::kHttp, .audience = Audience::kServe},
    {.name = "allowed-headers", .kind = K::kJsonTextList, .fallback = "[\"*\"]", .help = "CORS headers", .group = G::kHttp, .audience = Audience::kServe},
    {.name = "allow-credentials", .kind = K::kBool, .fallback = "false", .help = "CORS credentials", .group = G::kHttp, .audience = Audience::kServe},
    {.name = "root-path", .help = "Path prefix that a proxy adds", .group = G::kHttp, .audience = Audience::kServe},
    {.name = "enable-request-id-headers", .kind = K::kBool, .fallback = "false", .help = "Echo X-Request-Id", .group = G::kHttp, .audience = Audience::kServe},
    {.name = "enable-server-load-tracking", .kind = K::kBool, .fallback = "false", .help = "Count requests for /load", .group = G::kHttp, .audience = Audience::kServe},
    {.name = "max-body-bytes", .kind = K::kInt, .fallback = "33554432", .allowed = "1024..1073741824", .help = "Largest request body", .group = G::kHttp, .audience = Audience::kServe},
    {.name = "max-connections", .kind = K::kInt, .fallback = "4096", .allowed = "1..1048576", .help = "Open connections", .group = G::kHttp, .audience = Audience::kServe},
    {.name = "timeout-keep-alive", .kind = K::kInt, .fallback = "5", .allowed = "1..86400", .help = "Seconds an idle connection stays open; VLLM_HTTP_TIMEOUT_KEEP_ALIVE is the same", .group = G::kHttp, .audience = Audience::kServe},
    {.name = "header-timeout", .kind = K::kInt, .fallback = "30", .allowed = "1..3600", .help = "Seconds to send a request's header", .group = G::kHttp, .audience = Audience::kServe},
    {.name = "write-timeout", .kind = K::kInt, .fallback = "120", .allowed = "1..3600", .help = "Seconds a client may not read", .group = G::kHttp, .audience = Audience::kServe},
    {.name = "shutdown-timeout", .kind = K::kInt, .fallback = "30", .allowed = "0..86400", .help = "Seconds to finish requests after SIGTERM or SIGINT; another one more than 1 s after the first leaves at once", .group = G::kHttp, .audience = Audience::kServe},
    {.name = "io-threads", .kind = K::kInt, .fallback = "1", .allowed = "1..64", .help = "Threads for sockets", .group = G::kHttp, .audience = Audience::kServe},
    {.name = "tokenizer-threads", .kind = K::kInt, .fallback = "a quarter of the cores, 2 to 8", .allowed = "1..64", .help = "Threads that tokenise text; one more reads bodies and token ids and never waits for text", .group = G::kHttp, .audience = Audience::kServe},
    {.name = "api-server-count", .aliases = "-asc", .kind = K::kInt, .fallback = "1", .allowed = "1..64", .help = "API processes", .group = G::kHttp, .fate = Fate::kNoEffect, .fate_text = "one process serves all connections; use --io-threads and --tokenizer-threads", .audience = Audience::kServe},
    {.name = "headless", .kind = K::kBool, .fallback = "false", .help = "Engine without API", .group = G::kHttp, .fate = Fate::kNotBuilt, .fate_text = "several machines", .audience = Audience::kServe},
    {.name = "ssl-keyfile", .help = "TLS key", .group = G::kHttp, .fate = Fate::kNotBuilt, .fate_text = kTls, .audience = Audience::kServe},
    {.name = "ssl-certfile", .help = "TLS certificate", .group = G::kHttp, .fate = Fate::kNotBuilt, .fate_text = kTls, .audience = Audience::kServe},
    {.name = "ssl-ca-certs", .help = "TLS authorities", .group = G::kHttp, .fate = Fate::kNotBuilt, .fate_text = kTls, .audience = Audience::kServe},
    {.name = "ssl-cert-reqs", .kind = K::kInt, .fallback = "0", .allowed = "0..2", .help = "TLS client certificates", .group = G::kHttp, .fate = Fate::kNotBuilt, .fate_text = kTls, .audience = Audience::kServe},
    {.name = "ssl-ciphers", .help = "TLS ciphers", .group = G::kHttp, .fate = Fate::kNotBuilt, .fate_text = kTls, .audience = Audience::kServe},
    {.name = "enable-ssl-refresh", .kind = K::kBool, .fallback = "false", .help = "Reload certificates", .group = G::kHttp, .fate = Fate::kNotBuilt, .fate_text = kTls, .audience = Audience::kServe},
    {.name = "middleware", .kind = K::kTextList, .help = "ASGI middleware", .group = G::kHttp, .fate = Fate::kNotBuilt, .fate_text = "middleware (there is no Python here; put a proxy in front)", .audience = Audience::kServe, .accumulates = true},
    {.name = "disable-fastapi-docs", .kind = K::kBool, .fallback = "false", .help = "No documentation pages", .group = G::kHttp, .fate = Fate::kNoEffect, .fate_text = "there are no documentation pages", .audience = Audience::kServe},
    {.name = "h11-max-incomplete-event-size", .kind = K::kInt, .fallback = "4194304", .allowed = "1..", .help = "Header limit of another server", .group = G::kHttp, .fate = Fate::kNoEffect, .fate_text = "header size is bounded; bodies by --max-body-bytes", .audience = Audience::kServe},
    {.name = "h11-max-header-count", .kind = K::kInt, .fallback = "256", .allowed = "1..", .help = "Header limit of another server", .group = G::kHttp, .fate = Fate::kNoEffect, .fate_text = "header size is bounded; bodies by --max-body-bytes", .audience = Audience::kServe},
    {.name = "disable-frontend-multiprocessing", .kind = K::kBool, .fallback = "false", .help = "API in the engine's process", .group = G::kHttp, .fate = Fate::kNoEffect, .fate_text = "there is one process", .audience = Audience::kServe},

    // Logs and metrics
    {.name = "enable-log-requests", .kind = K::kBool, .fallback = "false", .help = "One log line per request", .group = G::kLogging, .audience = Audience::kServe},
    {.name = "disable-log-requests", .kind = K::kBool, .fallback = "true", .help = "Older form", .group = G::kLogging, .fate = Fate::kNoEffect, .fate_text = "requests are not logged unless asked; replaced by --no-enable-log-requests", .audience = Audience::kServe},
    {.name = "disable-log-stats", .kind = K::kBool, .fallback = "false", .help = "No periodic line of statistics", .group = G::kLogging},
    {.name = "disable-uvicorn-access-log", .aliases = "--disable-access-log", .kind = K::kBool, .fallback = "false", .help = "No access log", .group = G::kLogging, .audience = Audience::kServe},
    {.name = "disable-access-log-for-endpoints", .help = "Paths without access log", .group = G::kLogging, .fate = Fate::kNotBuilt, .fate_text = "an access log for some paths only", .audience = Audience::kServe},
    {.name = "uvicorn-log-level", .kind = K::kChoice, .fallback = "info", .allowed = "critical|error|warning|info|debug|trace", .help = "Log level of another server", .group = G::kLogging, .fate = Fate::kNoEffect, .fate_text = "use QUIRE_LOG_LEVEL", .audience = Audience::kServe},
    {.name = "max-log-len", .kind = K::kInt, .fallback = "unlimited", .allowed = "0..", .help = "Prompt characters in logs", .group = G::kLogging, .fate = Fate::kNoEffect, .fate_text = "request logs hold no prompt text", .audience = Audience::kServe},
    {.name = "enable-log-outputs", .kind = K::kBool, .fallback = "false", .help = "Outputs in logs", .group = G::kLogging, .fate = Fate::kNotBuilt, .fate_text = "outputs in logs", .audience = Audience::kServe},
    {.name = "enable-log-deltas", .kind = K::kBool, .fallback = "true", .help = "Streamed parts in logs", .group = G::kLogging, .fate = Fate::kNoEffect, .fate_text = "outputs are not logged", .audience = Audience::kServe},
    {.name = "log-error-stack", .kind = K::kBool, .fallback = "false", .help = "Stack traces in logs", .group = G::kLogging, .fate = Fate::kNoEffect, .fate_text = "errors carry their cause as text", .audience = Audience::kServe},
    {.name = "log-config-file", .help = "Logger settings", .group = G::kLogging, .fate = Fate::kNoEffect, .fate_text = "logs go to standard error; use QUIRE_LOG_LEVEL", .audience = Audience::kServe},
    {.name = "show-hidden-metrics-for-version", .help = "Old metrics", .group = G::kLogging, .fate = Fate::kNoEffect, .fate_text = "there are no hidden metrics"},
    {.name = "otlp-traces-endpoint", .help = "Traces", .group = G::kLogging, .fate = Fate::kNotBuilt, .fate_text = "traces"},
    {.name = "collect-detailed-traces", .kind = K::kTextList, .help = "Traces of modules", .group = G::kLogging, .fate = Fate::kNotBuilt, .fate_text = "traces"},
    {.name = "kv-cache-metrics", .kind = K::kBool, .fallback = "false", .help = "Metrics of block lifetimes", .group = G::kLogging, .fate = Fate::kNotBuilt, .fate_text = "metrics of block lifetimes"},
    {.name = "cudagraph-metrics", .kind = K::kBool, .fallback = "false", .help = "Metrics of graphs", .group = G::kLogging, .fate = Fate::kNotBuilt, .fate_text = "metrics of graphs"},
    {.name = "enable-mfu-metrics", .kind = K::kBool, .fallback = "false", .help = "Metrics of utilisation", .group = G::kLogging, .fate = Fate::kNotBuilt, .fate_text = "metrics of utilisation"},
    {.name = "enable-layerwise-nvtx-tracing", .kind = K::kBool, .fallback = "false", .help = "Profiler ranges", .group = G::kLogging, .fate = Fate::kNotBuilt, .fate_text = "profiler ranges"},

    // Hypothetical models
    {.name = "scales", .kind = K::kBool, .fallback = "false", .help = "Print the scale ledger instead: which tensor of the checkpoint gives which KV scale, and whether it is in use", .group = G::kExplain, .audience = Audience::kExplain},
    {.name = "head-size", .kind = K::kInt, .fallback = "from the model", .allowed = "1..65536", .help = "Head size to ask about", .group = G::kExplain, .audience = Audience::kExplain},
    {.name = "num-heads", .kind = K::kInt, .fallback = "from the model", .allowed = "1..65536", .help = "Query heads to ask about", .group = G::kExplain, .audience = Audience::kExplain},
    {.name = "num-kv-heads", .kind = K::kInt, .fallback = "from the model", .allowed = "1..65536", .help = "KV heads to ask about", .group = G::kExplain, .audience = Audience::kExplain},
    {.name = "masks", .kind = K::kTextList, .help = "Besides those of the model: sliding-window, chunked-local, alibi, soft-cap, sinks", .group = G::kExplain, .audience = Audience::kExplain},

    // One prompt
    {.name = "prompt", .help = "The prompt", .group = G::kRun, .audience = Audience::kRun},
    {.name = "chat", .kind = K::kBool, .fallback = "false", .help = "Send the prompt as a user message through the chat template", .group = G::kRun, .audience = Audience::kRun},
    {.name = "max-tokens", .kind = K::kInt, .fallback = "128", .sampling = &sampling_range::kMaxTokens, .help = "Tokens to make at most; without this flag, fewer where the context ends (chat: as many as the context leaves)", .group = G::kRun, .audience = Audience::kRunAndChat},
    {.name = "temperature", .kind = K::kFloat, .fallback = "from the model", .sampling = &sampling_range::kTemperature, .help = "0: greedy", .group = G::kRun, .audience = Audience::kRunAndChat, .benches = "serve"},
    {.name = "top-p", .kind = K::kFloat, .fallback = "from the model", .sampling = &sampling_range::kTopP, .help = "Probability mass to sample from", .group = G::kRun, .audience = Audience::kRunAndChat},
    {.name = "top-k", .kind = K::kInt, .fallback = "from the model", .sampling = &sampling_range::kTopK, .help = "Tokens to sample from", .group = G::kRun, .audience = Audience::kRunAndChat},

    {.name = "base-url", .help = "Server of the OpenAI API to talk to, e.g. http://localhost:8000; https is not built in (chat: instead of loading a model here)", .group = G::kRun, .audience = Audience::kChat, .benches = "serve"},
    {.name = "read-timeout", .kind = K::kFloat, .fallback = "600", .allowed = "0.001..31536000", .help = "Seconds without a byte from the server of --base-url until a request is given up; more for a server whose queue is long and silent", .group = G::kRun, .audience = Audience::kChat, .benches = "serve"},

    // Measuring a text
    {.name = "text", .help = "File of plain UTF-8 text to measure", .group = G::kEval, .audience = Audience::kEval},
    {.name = "max-windows", .kind = K::kInt, .fallback = "0", .allowed = "0..1000000000", .help = "Windows of the text to score at most; 0: all", .group = G::kEval, .audience = Audience::kEval},

    // Program
    {.name = "config", .help = "YAML file of flags (key: value); the command line wins", .group = G::kProgram},
    {.name = "print-config", .kind = K::kBool, .fallback = "false", .help = "Print what would run and stop", .group = G::kProgram},
    {.name = "verbose", .kind = K::kBool, .fallback = "false", .help = "One line for each check with its worst element instead of a summary", .group = G::kProgram, .audience = Audience::kDoctor},
    {.name = "json", .kind = K::kBool, .fallback = "false", .help = "One JSON document on standard output", .group = G::kProgram, .benches = "attention|serve"},
    {.name = "help", .aliases = "-h", .kind = K::kBool, .fallback = "false", .help = "This text", .group = G::kProgram, .benches = "attention|serve"},
};
// clang-format on

}  // namespace

std::span<const FlagRow> server_flag_rows() { return kRows; }

}  // namespace quire::config
