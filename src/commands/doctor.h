// quire doctor: loads a model as `serve` would, runs the self-check and prints its table. Opens no port.
#pragma once
#include <boost/json/object.hpp>
#include <cstdint>
#include <string>

#include "commands/startup_switches.h"
#include "config/command_line.h"
#include "selfcheck/selfcheck.h"

namespace quire::commands {

enum class Detail : std::uint8_t {
  kSummary,     // a line for each kind of check and row class, then each check that failed with its worst element
  kEveryCheck,  // a line for each check, batch and row class with its worst element
};
// The verdict is the last line.
[[nodiscard]] std::string report_text(const selfcheck::Report& report, Detail detail);
// An infinite error becomes null.
[[nodiscard]] boost::json::object report_json(const selfcheck::Report& report);

// The process's exit code: 0 when every check passed, 1 when one failed or the model could not be loaded, 2 for a wrong command line.
[[nodiscard]] int doctor(const config::DoctorCommand& command, const StartupSwitches& switches = {});

}  // namespace quire::commands
