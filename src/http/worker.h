// One io thread: its io_context, its mailbox and its connections. Everything here but post-like calls runs on that thread.
#pragma once
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <thread>
#include <unordered_set>

#include "api/mailbox.h"
#include "http/shared.h"

namespace quire::http {

class Session;

class Worker {
 public:
  explicit Worker(Shared& shared);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void start();
  // Any thread. Takes over a connected, non-blocking socket.
  void adopt(int fd, std::string peer);
  // Any thread. Idle connections close; others hear that a drain has begun.
  void wake_sessions();
  // Any thread. Whoever is being answered gets an error instead of the rest.
  void end_sessions();
  // Any thread. Cuts every connection.
  void kill_sessions();
  // Ends the io loop and joins the thread.
  void join();

  Shared& shared;
  api::Mailbox mailbox;  // outlives io, whose pending work may own generations
  boost::asio::io_context io{1};

 private:
  friend class Session;
  void watch_mailbox();

  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_;
  boost::asio::posix::stream_descriptor wake_;
  std::unordered_set<Session*> sessions_;
  std::thread thread_;
};

}  // namespace quire::http
