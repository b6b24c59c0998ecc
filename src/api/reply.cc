#include "api/reply.h"

#include "api/json_out.h"

namespace quire::api {

Reply json_reply(std::string body) {
  Reply reply;
  reply.body = std::move(body);
  return reply;
}

int http_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return 400;
    case ErrorCode::kNotFound: return 404;
    case ErrorCode::kTooLarge: return 413;
    // Not 501: clients repeat every 5xx, and repeating cannot help here.
    case ErrorCode::kUnsupported: return 400;
    case ErrorCode::kResourceExhausted: return 429;
    case ErrorCode::kUnavailable: return 503;
    case ErrorCode::kCorrupt:
    case ErrorCode::kIo:
    case ErrorCode::kInternal: return 500;
  }
  return 500;
}

const char* error_type(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "BadRequestError";
    case ErrorCode::kNotFound: return "NotFoundError";
    case ErrorCode::kTooLarge: return "RequestTooLargeError";
    case ErrorCode::kUnsupported: return "NotImplementedError";
    case ErrorCode::kResourceExhausted: return "RateLimitError";
    case ErrorCode::kUnavailable: return "ServiceUnavailableError";
    case ErrorCode::kCorrupt:
    case ErrorCode::kIo:
    case ErrorCode::kInternal: return "InternalServerError";
  }
  return "InternalServerError";
}

std::string error_body(int status, const std::string& type, const std::string& message, const std::string& param) {
  JsonOut out;
  out.begin_object();
  out.key("error");
  out.begin_object();
  out.field("message", message);
  out.field("type", type);
  if (param.empty()) out.null_field("param");
  else out.field("param", param);
  out.field("code", status);
  out.end_object();
  out.end_object();
  return out.take();
}

Reply error_reply(const Error& error) {
  Reply reply;
  reply.status = http_status(error.code);
  reply.body = error_body(reply.status, error_type(error.code), error.message, error.param);
  if (reply.status == 429 || reply.status == 503) reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

Reply http_error(int status, const std::string& message) {
  Reply reply;
  reply.status = status;
  reply.body = error_body(status, status_phrase(status), message.empty() ? status_phrase(status) : message, {});
  if (status == 429 || status == 503) reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

const char* status_phrase(int status) {
  switch (status) {
    case 100: return "Continue";
    case 200: return "OK";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Request Entity Too Large";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Error";
  }
}

}  // namespace quire::api
