#include "actors/admission/bfloat16_survey.hpp"

#include "config/text/version.hpp"
#include "messages/proto/hello.pb.h"
#include "messages/protocol.hpp"
#include "messages/run_record.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

void bfloat16_answers::heard(const std::string& worker,
                             std::optional<double> gain,
                             clock::time_point now) {
  std::lock_guard guard{mutex_};
  if (!first_)
    first_ = now;
  if (gain)
    gains_[worker] = *gain;
}

std::vector<double> bfloat16_answers::gains() const {
  std::lock_guard guard{mutex_};
  std::vector<double> out;
  for (const auto& [worker, gain] : gains_)
    out.push_back(gain);
  return out;
}

double bfloat16_answers::age(clock::time_point now) const {
  std::lock_guard guard{mutex_};
  return first_ ? std::chrono::duration<double>(now - *first_).count() : 0;
}

config::autocast_kind autocast_for(const std::vector<double>& gains) {
  auto all = !gains.empty() && std::ranges::all_of(gains, [](double gain) {
    return gain >= least_bfloat16_gain;
  });
  return all ? config::autocast_kind::bf16 : config::autocast_kind::none;
}

bfloat16_survey_state::bfloat16_survey_state(pointer self,
                                             bfloat16_survey_parts parts)
  : self_(self), parts_(std::move(parts)) {
  // nop
}

admission_actor::behavior_type bfloat16_survey_state::make_behavior() {
  return {[this](const std::string& hello)
            -> caf::result<std::string, caf::strong_actor_ptr> {
    return {meet(hello), caf::strong_actor_ptr{}};
  }};
}

// The admission will say what is wrong with a hello.
std::string bfloat16_survey_state::meet(const std::string& bytes) {
  proto::Hello hello;
  proto::Welcome welcome;
  welcome.set_protocol(protocol_version);
  welcome.set_troupe_version(std::string{config::version()});
  welcome.set_later(true);
  welcome.set_refusal("it waits for measurements of bfloat16");
  if (hello.ParseFromString(bytes) && hello.protocol() == protocol_version &&
      hello.role() == "worker") {
    std::optional<double> gain;
    if (hello.has_bfloat16_gain())
      gain = hello.bfloat16_gain();
    parts_.answers->heard(hello.name(), gain, bfloat16_answers::clock::now());
    welcome.set_measure(!gain);
    put(parts_.description, *welcome.mutable_description());
  }
  return welcome.SerializeAsString();
}

} // namespace troupe
