#include "api/mailbox.h"

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "api/generation.h"
#include "base/check.h"

namespace quire::api {

Mailbox::Mailbox() : queue_(std::make_shared<engine::EventQueue>()) {}
Mailbox::~Mailbox() { QUIRE_CHECK(routes_.empty()) << "a generation outlived its mailbox"; }

// An exception (no memory for one answer) ends that generation alone; the events after it are others'.
template <class Work>
void Mailbox::or_fail(Generation& generation, Work work) {
  try {
    work();
  } catch (const std::exception& e) {
    generation.fail(Error{ErrorCode::kInternal, std::string("the answer could not be made: ") + e.what(), {}});
  }
}

void Mailbox::deliver() {
  std::vector<Generation*> touched;
  for (engine::AddressedEvent& addressed : queue_->drain()) {
    const auto route = routes_.find(addressed.id);
    if (route == routes_.end()) continue;  // cancelled: nobody waits for it any more
    Generation* generation = route->second.generation;
    if (std::ranges::find(touched, generation) == touched.end()) touched.push_back(generation);
    or_fail(*generation, [&] { generation->on_event(route->second.choice, std::move(addressed.event)); });
  }
  for (Generation* generation : touched) or_fail(*generation, [&] { generation->flush_all(); });
  // on_news only wakes sessions; none is destroyed here.
  for (Generation* generation : touched)
    if (generation->on_news) generation->on_news();
}

}  // namespace quire::api
