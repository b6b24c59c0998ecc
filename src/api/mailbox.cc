#include "api/mailbox.h"

#include <algorithm>
#include <vector>

#include "api/generation.h"
#include "base/check.h"

namespace quire::api {

Mailbox::Mailbox() : queue_(std::make_shared<engine::EventQueue>()) {}
Mailbox::~Mailbox() { QUIRE_CHECK(routes_.empty()) << "a generation outlived its mailbox"; }

void Mailbox::deliver() {
  std::vector<Generation*> touched;
  for (engine::AddressedEvent& addressed : queue_->drain()) {
    const auto route = routes_.find(addressed.id);
    if (route == routes_.end()) continue;  // cancelled: nobody waits for it any more
    Generation* generation = route->second.generation;
    if (std::ranges::find(touched, generation) == touched.end()) touched.push_back(generation);
    generation->on_event(route->second.choice, std::move(addressed.event));
  }
  for (Generation* generation : touched) generation->flush_all();
  // on_news only wakes sessions; none is destroyed here.
  for (Generation* generation : touched)
    if (generation->on_news) generation->on_news();
}

}  // namespace quire::api
