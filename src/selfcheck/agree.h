// Two steps of one batch against each other: a recorded step must leave the bits of the eager one, in every layer (docs/NUMERICS.md, D1).
// What a whole graph keeps inside, its layers' attention, shows in the next layer's keys and values.
#pragma once
#include "selfcheck/audit.h"
#include "selfcheck/snapshot.h"
#include "selfcheck/tally.h"

namespace quire::selfcheck {

// Whether the batch's tokens left the same in both, padding aside.
[[nodiscard]] bool same_bits(const StepSnapshot& a, const StepSnapshot& b);

// One line for each row class; a difference is named by the first layer that has one.
void audit_agreement(const StepFacts& facts, const StepSnapshot& eager, Tally& tally);

}  // namespace quire::selfcheck
