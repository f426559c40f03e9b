#include "actors/external/agent.hpp"

#include "actors/runtime/inline_answer.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/runtime/tensor_payload.hpp"
#include "actors/runtime/unexpected.hpp"
#include "config/text/one_line.hpp"
#include "config/text/value.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

using external::body_reader;
using external::body_writer;
using external::process_frame_kind;

void put_tensor(body_writer& to, const models::parameter_slot& what) {
  to.put(what.name)
    .put(static_cast<uint8_t>(what.kind))
    .put(static_cast<uint8_t>(what.frozen))
    .put(what.same_as)
    .put(what.offset)
    .put(static_cast<uint32_t>(what.shape.size()));
  for (auto extent : what.shape)
    to.put(static_cast<uint64_t>(extent));
}

std::span<const std::byte> bytes_of(const at::Tensor& block) {
  return {static_cast<const std::byte*>(block.const_data_ptr()),
          block.nbytes()};
}

caf::error broken(const std::string& what) {
  return caf::make_error(errc::protocol_violation, what);
}

} // namespace

agent_state::agent_state(pointer self, agent_parts parts)
  : self_(self), parts_(std::move(parts)),
    weights_(parts_.layout.count(), parts_.layout.dtype(), parts_.memory),
    gradients_(parts_.layout.count(), parts_.layout.dtype(), parts_.memory) {
  on_unexpected(self_, [this](const std::string& line) {
    lose(caf::make_error(errc::failed, line));
  });
}

agent_actor::behavior_type agent_state::make_behavior() {
  welcome();
  return {
    [this](compute_atom, compute_task& task) {
      return begin(std::exchange(task, {}));
    },
    [this](cancel_atom) { cancel(); },
    [this](ended_atom, const run_end& how) {
      parts_.line->end(how);
      self_->quit();
    },
    [this](load_atom, const lease& what) { return load(what); },
    [this](frame_atom, uint32_t kind, uint64_t number,
           const std::string& body) {
      take(static_cast<process_frame_kind>(kind), number, body);
    },
    [this](detach_atom, const caf::error& why) { lose(why); },
    [this](tick_atom) { check_time(); },
  };
}

// -- what the process is told -------------------------------------------------

void agent_state::welcome() {
  uint64_t frozen_region = 0;
  if (parts_.frozen) {
    models::flat_pool pool{parts_.layout.frozen_count(), parts_.layout.dtype(),
                           parts_.memory};
    frozen_ = pool.take();
    frozen_.copy_(to_tensor(parts_.frozen));
    frozen_region = place_of(bytes_of(frozen_)).first;
  }
  const auto& settings = parts_.settings;
  body_writer out;
  out.put(static_cast<uint32_t>(to_element_type(parts_.layout.dtype())))
    .put(parts_.layout.count())
    .put(parts_.layout.frozen_count())
    .put(frozen_region)
    .put(settings.training.batch_size)
    .put(settings.training.seed)
    .put(static_cast<uint32_t>(parts_.layout.state_dict().size()));
  for (const auto& what : parts_.layout.state_dict())
    put_tensor(out, what);
  parts_.line->send(process_frame_kind::welcome, external::frame_version,
                    out.take());
}

// The server's own memory, where this host has it: its weights are used until
// the process has answered, as a compute actor would use them.
payload agent_state::mappable(const payload& weights) {
  auto bytes = weights.bytes();
  if (parts_.memory->find_foreign(bytes.data(), bytes.size()))
    return weights;
  auto copy = weights_.take();
  copy.copy_(to_tensor(weights));
  return to_payload(std::move(copy));
}

std::pair<uint64_t, uint64_t>
agent_state::place_of(std::span<const std::byte> block) {
  auto where = parts_.memory->find(block.data(), block.size());
  if (!where)
    where = parts_.memory->find_foreign(block.data(), block.size());
  const auto& region = where->region;
  if (regions_.try_emplace(region->id, region).second)
    parts_.line->send(process_frame_kind::memory, region->id,
                      body_writer{}.put(uint64_t{region->memory.size()}).take(),
                      region->file.get());
  return {region->id, where->offset};
}

void agent_state::forget_regions() {
  std::erase_if(regions_, [this](const auto& entry) {
    auto gone = entry.second.expired();
    if (gone)
      parts_.line->send(process_frame_kind::forgotten, entry.first);
    return gone;
  });
}

// The batch is with the process: an answer at once lets the worker go on.
caf::result<loaded_batch> agent_state::load(const lease& what) try {
  auto indices =
    parts_.order.lease_indices(what.epoch, what.first, what.count, what.part);
  body_writer out;
  out.put(what.epoch).put(what.part).put(static_cast<uint32_t>(indices.size()));
  for (auto index : indices)
    out.put(static_cast<uint64_t>(index));
  parts_.line->send(process_frame_kind::lease, what.id.value, out.take());
  waiting_.push_back(what);
  static const auto nothing = std::make_shared<const data::batch>();
  return loaded_batch{what, nothing};
} catch (const std::exception& err) {
  return caf::make_error(errc::bad_data, one_line(err));
}

// Leases are computed in their order: those before this one belonged to a
// place in the cluster that the worker has lost.
caf::result<gradient_report> agent_state::begin(compute_task task) {
  while (!waiting_.empty() && waiting_.front().id != task.from.id) {
    refused_.erase(waiting_.front().id);
    parts_.line->send(process_frame_kind::withdrawn, waiting_.front().id.value);
    waiting_.pop_front();
  }
  if (!waiting_.empty())
    waiting_.pop_front();
  job_ = job{task.from, self_->make_response_promise<gradient_report>(),
             gradients_.take(), run_clock{self_}};
  auto asks = job_->asks;
  if (lost_) {
    finish(lost_);
  } else if (refused_.erase(task.from.id) > 0 || *task.cancel) {
    finish(without_gradient(*job_));
  } else if (task.weights.arriving() &&
             !task.weights.arriving()->wait_for_all()) {
    finish(without_gradient(*job_)); // The link is lost, too.
  } else {
    forget_regions();
    auto weights = mappable(task.weights);
    auto [weights_region, weights_offset] = place_of(weights.bytes());
    auto [gradient_region, gradient_offset] =
      place_of(bytes_of(job_->gradient));
    unanswered_[task.from.id] = {weights, job_->gradient};
    parts_.line->send(process_frame_kind::weights, task.from.id.value,
                      body_writer{}
                        .put(task.computed_on.value)
                        .put(static_cast<uint8_t>(task.last_was_dropped))
                        .put(weights_region)
                        .put(weights_offset)
                        .put(gradient_region)
                        .put(gradient_offset)
                        .take());
  }
  return asks;
}

void agent_state::cancel() {
  if (!job_)
    return;
  if (unanswered_.contains(job_->what.id))
    parts_.line->send(process_frame_kind::cancelled, job_->what.id.value);
  finish(without_gradient(*job_));
}

// The reader asks for it: a timer would keep the agent when its run is over.
void agent_state::check_time() {
  auto limit = parts_.settings.training.compute_timeout;
  if (job_ && job_->clock.elapsed(self_) > limit)
    lose(caf::make_error(errc::timed_out,
                         "process " + std::to_string(parts_.line->pid()) +
                           " has sent no gradient in " + config::print(limit) +
                           " s (--compute-timeout)"));
}

// -- what it answers ----------------------------------------------------------

void agent_state::take(process_frame_kind kind, uint64_t number,
                       const std::string& body) {
  switch (kind) {
  case process_frame_kind::gradient:
    return take_gradient(lease_id{number}, body);
  case process_frame_kind::returned:
    return give_back(lease_id{number});
  default:
    lose(broken("process " + std::to_string(parts_.line->pid()) +
                " sent a frame of unknown kind " +
                std::to_string(static_cast<uint32_t>(kind))));
  }
}

void agent_state::take_gradient(lease_id from, const std::string& body) {
  auto who = "process " + std::to_string(parts_.line->pid());
  body_reader in{std::as_bytes(std::span{body})};
  auto samples = in.number<uint64_t>();
  auto loss = in.number<double>();
  std::vector<lease_id> also;
  for (auto rest = in.number<uint32_t>(); rest > 0 && in.good(); --rest)
    also.emplace_back(in.number<uint64_t>());
  if (!in.complete())
    return lose(broken(who + " sent a gradient's frame of another form"));
  if (!settle(from))
    return lose(broken(who + " sent a gradient that it was not asked for"));
  if (!job_ || job_->what.id != from) { // It was cancelled meanwhile.
    for (auto id : also)
      give_back(id);
    return;
  }
  auto wanted = job_->what.count + take_out(also);
  if (samples != wanted)
    return lose(broken(who + " sent a gradient of " + std::to_string(samples) +
                       " samples, and its leases have " +
                       std::to_string(wanted)));
  gradient_report report;
  report.also = std::move(also);
  report.gradient = to_payload(job_->gradient);
  report.samples = samples;
  report.loss = loss;
  report.seconds = job_->clock.elapsed(self_);
  finish(std::move(report));
}

/// Ends these leases, which a gradient covers that was asked for another one.
/// Returns how many samples they have; those that are not there have none.
uint64_t agent_state::take_out(const std::vector<lease_id>& what) {
  uint64_t out = 0;
  std::erase_if(waiting_, [&](const lease& one) {
    auto covered =
      std::ranges::count(what, one.id) == 1 && !refused_.contains(one.id);
    out += covered ? one.count : 0;
    return covered;
  });
  return out;
}

void agent_state::give_back(lease_id what) {
  if (settle(what)) {
    if (job_ && job_->what.id == what)
      finish(without_gradient(*job_));
  } else if (std::ranges::count(waiting_, what, &lease::id) > 0) {
    refused_.insert(what);
  }
}

/// Ends the process's use of the blocks of this lease.
bool agent_state::settle(lease_id what) {
  return unanswered_.erase(what) > 0;
}

gradient_report agent_state::without_gradient(const job& of) const {
  gradient_report out;
  out.cancelled = true;
  out.seconds = of.clock.elapsed(self_);
  return out;
}

void agent_state::finish(caf::expected<gradient_report> report) {
  auto done = *std::exchange(job_, std::nullopt);
  done.gradient.reset();
  run_inline(self_->system(), [&] { done.asks.deliver(std::move(report)); });
}

void agent_state::lose(const caf::error& why) {
  if (lost_)
    return;
  lost_ = why;
  self_->send(parts_.session, ended_atom_v, run_end{1, text_of(why)});
  if (job_)
    finish(lost_);
}

// -- the reader ---------------------------------------------------------------

namespace {

/// Reads the frames of the process, on a thread of its own.
class frame_reader_state {
public:
  using pointer = path_reader_actor::stateful_pointer<frame_reader_state>;

  static constexpr const char* name = "troupe.frame-reader";

  frame_reader_state(pointer self, external::process_line_ptr line,
                     agent_actor owner)
    : self_(self), line_(std::move(line)), owner_(std::move(owner)) {
    on_unexpected(self_, [this](const std::string& why) {
      self_->send(owner_, detach_atom_v, caf::make_error(errc::failed, why));
    });
  }

  path_reader_actor::behavior_type make_behavior() {
    self_->send(self_, tick_atom_v);
    return {[this](tick_atom) {
      read();
    }};
  }

private:
  static constexpr double between_looks = 0.5; ///< s without a frame.

  void read() {
    if (!line_->wait_for(between_looks)) {
      self_->send(owner_, tick_atom_v);
      self_->send(self_, tick_atom_v);
      return;
    }
    if (auto next = line_->receive()) {
      self_->send(owner_, frame_atom_v, static_cast<uint32_t>(next->kind),
                  next->number, std::move(next->body));
      self_->send(self_, tick_atom_v);
      return;
    }
    self_->send(owner_, detach_atom_v,
                caf::make_error(errc::peer_lost, line_->why_closed()));
    self_->quit();
  }

  pointer self_;
  external::process_line_ptr line_;
  agent_actor owner_;
};

} // namespace

agent_actor make_agent(caf::actor_system& system, agent_parts parts) {
  auto line = parts.line;
  auto agent = spawn<agent_actor, agent_state>(system, placement::detached,
                                               std::move(parts));
  spawn<path_reader_actor, frame_reader_state>(system, placement::detached,
                                               std::move(line), agent);
  return agent;
}

} // namespace troupe
