#pragma once
// Doubles of our actors, for an actor_fixture. Each keeps the messages that it
// got; those that can answer later keep the promise for the test to deliver.
// Used on the test's thread.

#include "actors/recording/notes.hpp"
#include "actors/weights/snapshot.hpp"
#include "tests/support/actor_fixture.hpp"

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe::test {

/// The messages that a double got, and its handle.
template <class Seen, class Handle>
struct stand_in {
  std::shared_ptr<Seen> seen = std::make_shared<Seen>();
  Handle handle;

  Seen* operator->() const { return seen.get(); }
};

struct member_change {
  worker_id worker;
  life_number life;
  std::string reason;
};

// -- worker -------------------------------------------------------------------

struct worker_notes {
  std::vector<registration> attached;
  int detached = 0;
  std::vector<version> cancelled;
  std::vector<run_end> stopped;
  std::vector<std::pair<version, sequence>> kept; ///< Error feedback.
  int pings = 0;
  bool silent = false; ///< Does not answer pings.
  std::string stacks;  ///< Of the user's program.
  bool slow = false;   ///< Does not answer `write_atom`.
  uint64_t steps = 0;  ///< Local ones, as it answers pings.
  std::vector<caf::typed_response_promise<void>> unanswered;
  std::vector<caf::typed_response_promise<uint64_t>> unanswered_pings;
};

using worker_stand_in = stand_in<worker_notes, worker_actor>;

inline worker_stand_in make_worker_stand_in(actor_fixture& actors) {
  worker_stand_in out;
  auto seen = out.seen;
  out.handle = actors.stand_in<worker_actor>([seen](auto* self) {
    return worker_actor::behavior_type{
      [seen](attach_atom, const parameter_server_actor&, const registration& as,
             const gradient_way&) { seen->attached.push_back(as); },
      [seen](detach_atom) { ++seen->detached; },
      [seen](cancel_atom, version before) {
        seen->cancelled.push_back(before);
      },
      [seen, self](write_atom, version at,
                   sequence settled) -> caf::result<void> {
        seen->kept.emplace_back(at, settled);
        if (!seen->slow)
          return caf::unit;
        seen->unanswered.push_back(
          self->template make_response_promise<void>());
        return seen->unanswered.back();
      },
      [](leave_atom) { return sequence{0}; },
      [seen, self](ping_atom) -> caf::result<uint64_t> {
        ++seen->pings;
        if (!seen->silent)
          return seen->steps;
        seen->unanswered_pings.push_back(
          self->template make_response_promise<uint64_t>());
        return seen->unanswered_pings.back();
      },
      [seen](report_atom) { return seen->stacks; },
      [seen](stop_atom, const run_end& how) { seen->stopped.push_back(how); },
    };
  });
  return out;
}

// -- evaluator ----------------------------------------------------------------

struct evaluator_notes {
  std::vector<run_end> stopped;
};

using evaluator_stand_in = stand_in<evaluator_notes, evaluator_actor>;

inline evaluator_stand_in make_evaluator_stand_in(actor_fixture& actors) {
  evaluator_stand_in out;
  auto seen = out.seen;
  out.handle = actors.stand_in<evaluator_actor>([seen](auto*) {
    return evaluator_actor::behavior_type{
      [](attach_atom, const parameter_server_actor&) {},
      [](detach_atom) {},
      [](ping_atom) {},
      [seen](stop_atom, const run_end& how) { seen->stopped.push_back(how); },
    };
  });
  return out;
}

// -- coordinator --------------------------------------------------------------

struct coordinator_notes {
  std::vector<member_change> left;
  int ending = 0;
  int credits = 0;
  std::vector<run_end> ended;
  struct last_one {
    version what;
    std::vector<push_id> applied;
    payload weights;
  };
  std::vector<last_one> last; ///< What the run ends with.
};

using coordinator_stand_in = stand_in<coordinator_notes, coordinator_actor>;

inline coordinator_stand_in make_coordinator_stand_in(actor_fixture& actors) {
  coordinator_stand_in out;
  auto seen = out.seen;
  out.handle = actors.stand_in<coordinator_actor>([seen](auto*) {
    return coordinator_actor::behavior_type{
      [](register_atom, const registration_request&, const worker_actor&) {
        return registration{};
      },
      [](register_atom, const evaluator_actor&) { return life_number{1}; },
      [seen](leave_atom, worker_id who, life_number life,
             const std::string& reason) {
        seen->left.push_back({who, life, reason});
      },
      [](detach_atom, const worker_actor&) {},
      [](detach_atom, worker_id, life_number, const std::string&) {
        // nop
      },
      [](join_atom) {},
      [seen](ending_atom) { ++seen->ending; },
      [seen](ended_atom, const run_end& how) { seen->ended.push_back(how); },
      [seen](ended_atom, version number, const std::vector<push_id>& applied,
             const payload& weights) {
        seen->last.push_back({number, applied, weights});
      },
      [seen](fetch_atom) -> last_version {
        if (seen->last.empty())
          return caf::make_error(errc::shutting_down);
        const auto& [what, applied, weights] = seen->last.back();
        return {what, applied, weights};
      },
      [seen](credit_atom) { ++seen->credits; },
      [](tick_atom) {},
    };
  });
  return out;
}

// -- parameter server ---------------------------------------------------------

/// A request for weights that is not answered yet.
template <class Header>
struct held_request {
  Header header;
  payload gradient; ///< Of a push.
  caf::typed_response_promise<release_header, payload> promise;
};

struct server_notes {
  std::vector<held_request<push_header>> pushes;
  std::vector<held_request<pull_header>> pulls;
  std::vector<version> watched;
  std::vector<version> averages; ///< Of requests for averages.
  std::vector<caf::typed_response_promise<watch_header, payload>> watches;
  std::vector<score> scores;
};

using server_stand_in = stand_in<server_notes, parameter_server_actor>;

inline server_stand_in make_server_stand_in(actor_fixture& actors) {
  server_stand_in out;
  auto seen = out.seen;
  using weights = caf::result<release_header, payload>;
  out.handle = actors.stand_in<parameter_server_actor>([seen](auto* self) {
    return parameter_server_actor::behavior_type{
      [=](push_atom, const push_header& header,
          const payload& gradient) -> weights {
        auto promise =
          self->template make_response_promise<release_header, payload>();
        seen->pushes.push_back({header, gradient, promise});
        return promise;
      },
      [=](pull_atom, const pull_header& header) -> weights {
        auto promise =
          self->template make_response_promise<release_header, payload>();
        seen->pulls.push_back({header, {}, promise});
        return promise;
      },
      [=](watch_atom,
          const watch_request& request) -> caf::result<watch_header, payload> {
        (request.average ? seen->averages : seen->watched)
          .push_back(request.after);
        seen->watches.push_back(
          self->template make_response_promise<watch_header, payload>());
        return seen->watches.back();
      },
      [=](score_atom, const score& found) { seen->scores.push_back(found); },
    };
  });
  return out;
}

struct lead_notes {
  struct enlisted {
    worker_id worker;
    life_number life;
    caf::typed_response_promise<void> promise;
  };

  bool holds = false; ///< Leaves enlistments to the test to answer.
  std::vector<enlisted> enlistments;
  std::vector<std::vector<worker_id>> joined;
  std::vector<member_change> left;
  std::vector<uint32_t> evaluators;
  std::vector<std::string> refused;
  std::vector<run_end> ended; ///< Of lives of the run.
  std::vector<std::string> policies;
  int fetches = 0; ///< Announced.
  int attached = 0;
};

using lead_stand_in = stand_in<lead_notes, lead_actor>;

inline lead_stand_in make_lead_stand_in(actor_fixture& actors) {
  lead_stand_in out;
  auto seen = out.seen;
  using weights = caf::result<release_header, payload>;
  auto no = [] {
    return caf::make_error(errc::failed);
  };
  out.handle = actors.stand_in<lead_actor>([=](auto* self) {
    return lead_actor::behavior_type{
      [=](push_atom, const push_header&, const payload&) -> weights {
        return no();
      },
      [=](pull_atom, const pull_header&) -> weights { return no(); },
      [=](watch_atom, const watch_request&)
        -> caf::result<watch_header, payload> { return no(); },
      [](score_atom, const score&) {},
      [seen](coordinator_atom, const coordinator_actor&) { ++seen->attached; },
      [](shards_atom, const shard_registrar_actor&,
         const std::vector<remote_shard_actor>&) {},
      [](report_atom, const part_report&) {},
      [=](enlist_atom, worker_id who, life_number life,
          const registration_request&,
          const worker_actor&) -> caf::result<void> {
        auto promise = self->template make_response_promise<void>();
        seen->enlistments.push_back({who, life, promise});
        if (!seen->holds)
          promise.deliver();
        return promise;
      },
      [seen](join_atom, const std::vector<worker_id>& who) {
        seen->joined.push_back(who);
      },
      [seen](leave_atom, worker_id who, life_number life,
             const std::string& reason) {
        seen->left.push_back({who, life, reason});
      },
      [seen](evaluators_atom, uint32_t count) {
        seen->evaluators.push_back(count);
      },
      [seen](refuse_atom, const std::string& line) {
        seen->refused.push_back(line);
      },
      [seen](ended_atom, const run_end& how) { seen->ended.push_back(how); },
      [seen](fetch_atom) { ++seen->fetches; },
      [](tick_atom) {},
      [](tick_atom, worker_id, life_number) {},
      [](tick_atom, version) {},
      [seen](policy_atom, const std::string& policy) {
        seen->policies.push_back(policy);
        return version{seen->policies.size()};
      },
      [](stop_atom) {},
    };
  });
  return out;
}

// -- at the side of the parameter server --------------------------------------

struct recorder_notes {
  bool holds = false; ///< Leaves it to the test to acknowledge.
  std::vector<caf::typed_response_promise<void>> unacknowledged;

  void acknowledge() {
    for (auto& one : std::exchange(unacknowledged, {}))
      one.deliver();
  }

  /// If set, gets the notes, which are then not kept.
  std::function<void(const note&)> on_note;
  std::vector<note_ptr> notes;
  std::vector<note_ptr> finished;

  /// The notes of one kind.
  template <class What>
  std::vector<What> of() const {
    std::vector<What> out;
    for (const auto& what : notes)
      if (auto* found = std::get_if<What>(&what->what))
        out.push_back(*found);
    return out;
  }
};

using recorder_stand_in = stand_in<recorder_notes, recorder_actor>;

inline recorder_stand_in make_recorder_stand_in(actor_fixture& actors) {
  recorder_stand_in out;
  auto seen = out.seen;
  out.handle = actors.stand_in<recorder_actor>([seen](auto* self) {
    auto answer = [seen, self]() -> caf::result<void> {
      if (!seen->holds)
        return caf::unit;
      seen->unacknowledged.push_back(
        self->template make_response_promise<void>());
      return seen->unacknowledged.back();
    };
    return recorder_actor::behavior_type{
      [seen, answer](note_atom, const note_ptr& entry) {
        if (seen->on_note)
          seen->on_note(*entry);
        else
          seen->notes.push_back(entry);
        return answer();
      },
      [seen, answer](finish_atom, const note_ptr& entry) {
        seen->finished.push_back(entry);
        return answer();
      },
    };
  });
  return out;
}

struct writer_notes {
  std::vector<snapshot_ptr> snapshots;
  bool holds = false; ///< Answers only when the test does.
  std::vector<caf::typed_response_promise<std::string>> promises;
  std::optional<caf::error> fails;
};

using writer_stand_in = stand_in<writer_notes, checkpoint_writer_actor>;

inline writer_stand_in make_writer_stand_in(actor_fixture& actors) {
  writer_stand_in out;
  auto seen = out.seen;
  out.handle = actors.stand_in<checkpoint_writer_actor>([seen](auto* self) {
    return checkpoint_writer_actor::behavior_type{
      [=](write_atom, const snapshot_ptr& state) -> caf::result<std::string> {
        seen->snapshots.push_back(state);
        if (seen->fails)
          return *seen->fails;
        if (!seen->holds)
          return "step-" + std::to_string(state->manifest.step());
        seen->promises.push_back(
          self->template make_response_promise<std::string>());
        return seen->promises.back();
      },
    };
  });
  return out;
}

// -- at the side of a worker or an evaluator ----------------------------------

struct session_client_notes {
  int asked = 0;
  int pauses = 0;
  int resumes = 0;
  std::vector<std::pair<version, push_id>> kept; ///< Error feedback.
  std::vector<run_end> ended;
  std::vector<payload_shape> fetched; ///< Of the run's last weights.
  std::vector<
    caf::typed_response_promise<version, std::vector<push_id>, payload>>
    fetches;
};

using session_client_stand_in =
  stand_in<session_client_notes, session_client_actor>;

inline session_client_stand_in
make_session_client_stand_in(actor_fixture& actors) {
  session_client_stand_in out;
  auto seen = out.seen;
  out.handle = actors.stand_in<session_client_actor>([seen](auto* self) {
    return session_client_actor::behavior_type{
      [seen](connect_atom) { ++seen->asked; },
      [seen](write_atom, version at, const push_id& settled) {
        seen->kept.emplace_back(at, settled);
      },
      [](tick_atom) {},
      [seen](leave_atom) { ++seen->pauses; },
      [seen](join_atom) { ++seen->resumes; },
      [=](fetch_atom, const payload_shape& shape) -> last_version {
        seen->fetched.push_back(shape);
        seen->fetches.push_back(
          self->template make_response_promise<version, std::vector<push_id>,
                                               payload>());
        return seen->fetches.back();
      },
      [seen](ended_atom, const run_end& how) { seen->ended.push_back(how); },
      [](stop_atom) {},
      [](stop_atom, double) {},
    };
  });
  return out;
}

struct compute_notes {
  int cancels = 0;
  std::vector<run_end> ended;
  std::vector<compute_task> tasks;
  std::vector<caf::typed_response_promise<gradient_report>> promises;
};

using compute_stand_in = stand_in<compute_notes, compute_actor>;

inline compute_stand_in make_compute_stand_in(actor_fixture& actors) {
  compute_stand_in out;
  auto seen = out.seen;
  out.handle = actors.stand_in<compute_actor>([seen](auto* self) {
    return compute_actor::behavior_type{
      [=](compute_atom,
          const compute_task& task) -> caf::result<gradient_report> {
        seen->tasks.push_back(task);
        seen->promises.push_back(
          self->template make_response_promise<gradient_report>());
        return seen->promises.back();
      },
      [seen](cancel_atom) { ++seen->cancels; },
      [=](ended_atom, const run_end& how) {
        seen->ended.push_back(how);
        self->quit();
      },
    };
  });
  return out;
}

/// The gateway of a peer whose messages nobody looks at.
inline gateway_actor make_gateway_stand_in(actor_fixture& actors) {
  return actors.stand_in<gateway_actor>([](auto*) {
    return gateway_actor::behavior_type{
      [](attach_atom, const parameter_server_actor&) {
        return coordinator_actor{};
      },
      [](attach_atom, const chunk_end_actor&) {},
      [](ended_atom) -> caf::result<version, std::vector<push_id>> {
        return caf::make_error(errc::shutting_down);
      },
      [](fetch_atom, const caf::strong_actor_ptr&) {},
      [](credit_atom, transfer_id, uint64_t) {},
    };
  });
}

struct loader_notes {
  bool holds = false; ///< Answers only when the test does.
  std::vector<lease> leases;
  std::vector<caf::typed_response_promise<loaded_batch>> promises;
};

using loader_stand_in = stand_in<loader_notes, loader_actor>;

inline loader_stand_in make_loader_stand_in(actor_fixture& actors,
                                            batch_ptr batch) {
  loader_stand_in out;
  auto seen = out.seen;
  out.handle = actors.stand_in<loader_actor>([seen, batch](auto* self) {
    return loader_actor::behavior_type{
      [=](load_atom, const lease& work) -> caf::result<loaded_batch> {
        seen->leases.push_back(work);
        auto promise = self->template make_response_promise<loaded_batch>();
        seen->promises.push_back(promise);
        if (!seen->holds)
          promise.deliver(loaded_batch{work, batch});
        return promise;
      },
    };
  });
  return out;
}

struct scorer_notes {
  std::vector<version> versions;
  std::vector<payload> weights;
  std::vector<caf::typed_response_promise<score>> promises;
};

using scorer_stand_in = stand_in<scorer_notes, scorer_actor>;

inline scorer_stand_in make_scorer_stand_in(actor_fixture& actors) {
  scorer_stand_in out;
  auto seen = out.seen;
  out.handle = actors.stand_in<scorer_actor>([seen](auto* self) {
    return scorer_actor::behavior_type{
      [=](evaluate_atom, version number, const payload& weights,
          bool) -> caf::result<score> {
        seen->versions.push_back(number);
        seen->weights.push_back(weights);
        seen->promises.push_back(self->template make_response_promise<score>());
        return seen->promises.back();
      },
    };
  });
  return out;
}

struct supervisor_notes {
  std::vector<run_end> ended;
};

using supervisor_stand_in = stand_in<supervisor_notes, supervisor_actor>;

inline supervisor_stand_in make_supervisor_stand_in(actor_fixture& actors) {
  supervisor_stand_in out;
  auto seen = out.seen;
  out.handle = actors.stand_in<supervisor_actor>([seen](auto*) {
    return supervisor_actor::behavior_type{
      [](supervise_atom, const std::string&, const caf::strong_actor_ptr&) {},
      [seen](ended_atom, const run_end& how) { seen->ended.push_back(how); },
    };
  });
  return out;
}

} // namespace troupe::test
