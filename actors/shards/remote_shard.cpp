#include "actors/shards/remote_shard.hpp"

#include "actors/runtime/run_is_over.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/runtime/tensor_payload.hpp"
#include "actors/shards/optimizer_messages.hpp"
#include "config/text/failure.hpp"
#include "config/text/one_line.hpp"
#include "models/device/accelerator.hpp"
#include "models/guarded.hpp"
#include "models/layout/fragments.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

namespace troupe {

namespace {

config::scalar_type dtype_of(const payload_shape& shape) {
  return shape.type == element_type::float64 ? config::scalar_type::float64
                                             : config::scalar_type::float32;
}

std::optional<models::fragments> cuts_of(const remote_shard_parts& parts) {
  if (parts.fragments.empty())
    return std::nullopt;
  return models::fragments{parts.fragments};
}

/// Concatenated in one buffer: weights, then slots.
at::Tensor part_of(const at::Tensor& state, uint64_t count, size_t index) {
  return state.narrow(0, static_cast<int64_t>(count * index),
                      static_cast<int64_t>(count));
}

} // namespace

remote_shard_state::remote_shard_state(pointer self, remote_shard_parts parts)
  : self_(self), parts_(std::move(parts)),
    versions_(parts_.weights.count, dtype_of(parts_.weights),
              models::device_named(parts_.settings.device), parts_.memory,
              true) {
  // nop
}

remote_shard_actor::behavior_type remote_shard_state::make_behavior() {
  at::set_num_threads(parts_.threads);
  return {
    [this](push_atom, const push_header& header, const payload& part) {
      return push(header, part);
    },
    [this](pull_atom, const pull_header& header) { return pull(header); },
    [](watch_atom, const watch_request&) -> caf::result<watch_header, payload> {
      return caf::make_error(errc::protocol_violation,
                             std::string{"versions are scored as a whole: the "
                                         "lead shard has them"});
    },
    [](score_atom, const score&) {},
    [this](begin_atom, const caf::strong_actor_ptr& lead, transfer_id id,
           const shard_state& state, const payload_shape& shape) {
      lead_ = caf::actor_cast<lead_actor>(lead);
      begin(id, state, shape);
    },
    [this](chunk_atom, const chunk& piece) { add_piece(piece); },
    [this](credit_atom, transfer_id id, uint64_t received) {
      credit(id, received);
    },
    [this](refuse_atom, const std::vector<push_id>& which) {
      in_order([this, which] {
        for (const auto& id : which)
          held_.erase(id);
        if (parts_.exchange)
          parts_.exchange.exchange->drop(which);
      });
    },
    [this](sum_atom, const shard_step& order) {
      in_order([this, order] { add_up(order); });
    },
    [this](norm_atom, const shard_step& order) { return squares(order); },
    [this](measure_atom, const shard_step& order) { return measure(order); },
    [this](order_atom, const shard_step& order) {
      in_order([this, order] { make(order); });
    },
    [this](release_atom, const request_id& id, const release_header& header) {
      in_order([this, id, header] { release(id, header); });
    },
    [this](leave_atom, worker_id who, life_number life) { leave(who, life); },
    [this](state_atom, transfer_id id, const state_request& request) {
      in_order([this, id, request] { send_state(id, request); });
    },
    [](ping_atom) {},
    [this](ending_atom) { in_order([this] { end_training(); }); },
    [this](stop_atom, const run_end& how) {
      end_training();
      parts_.on_end(how);
    },
  };
}

// -- requests of workers ------------------------------------------------------

auto remote_shard_state::push(const push_header& header, const payload& part)
  -> weights_result try {
  if (auto err = unwelcome(header.id.worker, header.id.life))
    return err;
  request_id id{header.id.worker, header.id.life, header.request};
  auto fragment = turns_[header.id.worker];
  payload_shape expected{parts_.weights.type,
                         model_.count_of(fragment, parts_.weights.count)};
  auto offered = part.is_absent();
  if (part.shape() != expected || (offered && !parts_.exchange)) {
    report({parts_.rank, id, header.id, errc::wrong_size});
    return caf::make_error(errc::wrong_size,
                           std::string{"part of a gradient does not have the "
                                       "size of its shard"});
  }
  auto& last = last_[header.id.worker];
  if (header.id <= last) {
    // Names no push: the first one may be held for a step.
    report({parts_.rank, id, {}, errc::duplicate});
    return caf::make_error(errc::duplicate, "gradient " + to_string(header.id) +
                                              " has arrived before");
  }
  last = header.id;
  part_report found{parts_.rank, id, header.id,
                    offered ? errc::none : errc::not_finite};
  auto& held = held_[header.id];
  held = {part, fragment, offered};
  if (!offered) {
    held.numbers = versions_.place(part);
    auto facts = model_.look_at(held.numbers, fragment);
    if (facts.is_sound)
      found.refused = errc::none;
    found.squares.assign(facts.squares.parts().begin(),
                         facts.squares.parts().end());
  }
  auto answer = hold(id, offered);
  report(std::move(found));
  return answer;
} catch (const std::exception& err) { // A GPU that has failed.
  auto why = caf::make_error(errc::failed, one_line(err));
  self_->quit(why);
  return why;
}

// Whatever a shard refuses the lead refuses, too, and gives its leases to
// others.
void remote_shard_state::report(part_report part) {
  self_->send(lead_, report_atom_v, std::move(part));
}

auto remote_shard_state::pull(const pull_header& header) -> weights_result {
  if (auto err = unwelcome(header.worker, header.life))
    return err;
  request_id id{header.worker, header.life, header.request};
  auto answer = hold(id);
  report({parts_.rank, id, {header.worker, header.life, sequence{0}}});
  return answer;
}

caf::error remote_shard_state::unwelcome(worker_id who,
                                         life_number life) const {
  if (over_)
    return run_is_over();
  if (auto last = gone_.find(who); last != gone_.end() && life <= last->second)
    return caf::make_error(errc::unknown_member, "worker " + to_string(who) +
                                                   " is not in the cluster");
  return {};
}

// A worker that sends a new request has given up the earlier one: another
// shard, or the lead, has refused it.
auto remote_shard_state::hold(const request_id& id, bool offered)
  -> weights_result {
  close(id.worker, errc::duplicate, "the worker has asked again");
  auto promise = self_->make_response_promise<release_header, payload>();
  requests_.insert_or_assign(id.worker, request{id, promise, offered});
  return promise;
}

void remote_shard_state::close(worker_id who, errc why,
                               const std::string& text) {
  if (auto found = requests_.extract(who))
    found.mapped().asks.deliver(caf::make_error(why, text));
}

// -- decisions of the lead ----------------------------------------------------

/// Does what the lead orders after a sum when that is there. All that it orders
/// is about one version or another of the weights.
template <class Work>
void remote_shard_state::in_order(Work work) {
  if (adds_up_)
    ordered_.push_back(std::move(work));
  else
    work();
}

// This actor goes on, since it may be waiting for a shard that is lost.
void remote_shard_state::add_up(const shard_step& order) {
  adds_up_ = true;
  self_->request(parts_.exchange.front, caf::infinite, sum_atom_v, order)
    .then([this](const payload& sum) { go_on_with(sum); },
          [this](const caf::error& why) {
            self_->send(parts_.registrar, refuse_atom_v, text_of(why));
          });
}

void remote_shard_state::go_on_with(const payload& sum) {
  sum_ = sum;
  adds_up_ = false;
  while (!adds_up_ && !ordered_.empty()) {
    auto work = std::move(ordered_.front());
    ordered_.pop_front();
    work();
  }
}

/// The offered ones are in one sum, the mean of them.
auto remote_shard_state::gradients_of(const shard_step& order) const
  -> step_gradients {
  if (order.makes != version_.next())
    throw run_error("told to make version " + to_string(order.makes) +
                    " from " + to_string(version_));
  step_gradients out{};
  double offered = 0;
  for (size_t i = 0; i < order.gradients.size(); ++i) {
    const auto& held = held_.at(order.gradients[i]);
    if (held.offered) {
      offered += order.shares[i];
      continue;
    }
    out.all.push_back(held.numbers);
    out.shares.push_back(order.shares[i]);
    if (model_.cuts())
      out.fragments.push_back(held.fragment);
  }
  if (offered > 0) { // Workers offer what is of all the weights.
    out.all.push_back(sum_);
    out.shares.push_back(offered);
    out.have_sum = true;
  }
  return out;
}

/// An error here, as in `make`, ends this actor; the lead is told, with the
/// reason.
template <class Answer, class Find>
caf::result<Answer> remote_shard_state::answer_in_order(Find find) {
  auto asks = self_->make_response_promise<Answer>();
  in_order([this, asks, find = std::move(find)]() mutable {
    try {
      asks.deliver(find());
    } catch (const std::exception& err) {
      auto why = caf::make_error(errc::failed, one_line(err));
      self_->quit(why);
      asks.deliver(why);
    }
  });
  return asks;
}

caf::result<shard_squares>
remote_shard_state::squares(const shard_step& order) {
  return answer_in_order<shard_squares>([this, order] {
    auto of = gradients_of(order);
    shard_squares out;
    auto sum = model_.squares(of.mean());
    out.parts.assign(sum.parts().begin(), sum.parts().end());
    return out;
  });
}

caf::result<shard_measures>
remote_shard_state::measure(const shard_step& order) {
  return answer_in_order<shard_measures>([this, order] {
    auto of = gradients_of(order);
    if (!model_.has_factors())
      throw run_error("told to measure parameters, of which its optimiser "
                      "makes no use");
    return to_message(
      model_.measure(versions_.newest_flat(), of.mean(), order.scale));
  });
}

void remote_shard_state::make(const shard_step& order) try {
  auto of = gradients_of(order);
  auto next = versions_.step_buffer();
  model_.apply(next, versions_.newest_flat(), of.mean(), terms_of(order));
  versions_.publish(order.makes, std::move(next));
  version_ = order.makes;
  for (const auto& id : order.gradients)
    held_.erase(id);
  if (!of.have_sum)
    return;
  sum_ = {};
  gathered_ = version_;
  parts_.exchange.exchange->gather(version_, versions_.newest());
} catch (const std::exception& err) {
  self_->quit(caf::make_error(errc::failed, one_line(err)));
}

// A request that is missing was given up by its worker.
void remote_shard_state::release(const request_id& id,
                                 const release_header& header) {
  if (header.weights != version_)
    return self_->quit(caf::make_error(errc::protocol_violation,
                                       "told to give version " +
                                         to_string(header.weights) + ", has " +
                                         to_string(version_)));
  auto found = requests_.find(id.worker);
  if (found == requests_.end() || found->second.id != id)
    return;
  auto [_, asks, offered] = std::move(found->second);
  requests_.erase(found);
  turns_[id.worker] = header.fragment;
  auto by_gather = offered && gathered_ == version_;
  asks.deliver(header, by_gather
                         ? payload{parts_.weights, nullptr, nullptr}
                         : model_.released(versions_.newest(), header.fragment,
                                           header.goes_on));
}

void remote_shard_state::leave(worker_id who, life_number life) {
  auto& last = gone_[who];
  last = std::max(last, life);
  if (auto found = requests_.find(who);
      found != requests_.end() && found->second.id.life <= life)
    close(who, errc::unknown_member, "the worker has left the cluster");
}

void remote_shard_state::end_training() {
  over_ = true;
  while (!requests_.empty())
    close(requests_.begin()->first, errc::shutting_down, "the run is over");
  held_.clear();
  if (parts_.modules)
    parts_.modules->end();
}

// -- transfer of its state ----------------------------------------------------

// The model is made only here, since only now it is known which elements of the
// shard have settings of their own.
void remote_shard_state::begin(transfer_id id, const shard_state& state,
                               const payload_shape& shape) try {
  server_range range{
    {0, parts_.weights.count}, groups_of(state), cuts_of(parts_)};
  model_ = {parts_.settings, dtype_of(parts_.weights), std::move(range),
            parts_.across};
  arriving_.emplace(shape);
  arriving_id_ = id;
  arriving_state_ = state;
  first_ = state.first;
} catch (const std::exception& err) {
  self_->quit(caf::make_error(errc::failed, one_line(err)));
}

void remote_shard_state::add_piece(const chunk& piece) {
  if (!arriving_ || piece.transfer != arriving_id_ || !arriving_->accept(piece))
    return self_->quit(caf::make_error(errc::protocol_violation,
                                       std::string{"a piece is out of place"}));
  self_->send(parts_.registrar, credit_atom_v, parts_.rank, piece.transfer,
              arriving_->received());
  if (!arriving_->complete())
    return;
  load(std::move(*std::exchange(arriving_, std::nullopt)).take_payload());
  self_->send(parts_.registrar, begun_atom_v, parts_.rank);
}

void remote_shard_state::load(const payload& flat) {
  auto state = to_tensor(flat);
  auto count = parts_.weights.count;
  auto weights = versions_.step_buffer();
  copy_numbers(weights, part_of(state, count, 0));
  version_ = arriving_state_.weights;
  versions_.publish(version_, std::move(weights));
  if (!arriving_state_.with_slots)
    return;
  std::vector<models::named_slot> slots;
  for (auto& name : model_.slot_names())
    slots.push_back({std::move(name), part_of(state, count, slots.size() + 1)});
  model_.load(slots, arriving_state_.optimizer_steps,
              arriving_state_.fragment_steps);
}

// A version never changes, so it needs no copy; the next step changes the
// slots.
void remote_shard_state::send_state(transfer_id id,
                                    const state_request& request) {
  if (request.average) {
    auto average = model_.average();
    auto state =
      copy_state(average ? std::span{&*average, 1} : std::span<at::Tensor>{});
    state.host_bytes(); // A chunk could not tell of a GPU that has failed.
    leaving_.begin(id, state, to_registrar());
  } else if (request.weights.parts.empty())
    leaving_.begin(id, versions_.newest(), to_registrar());
  else
    write_state(id, request);
}

// Writes a copy, since steps go on meanwhile. Where these files do not
// exist, the registrar gets the whole copy.
void remote_shard_state::write_state(transfer_id id,
                                     const state_request& places) {
  std::vector<at::Tensor> slots;
  for (auto& slot : model_.slots())
    slots.push_back(std::move(slot.flat));
  auto state = copy_state(slots);
  auto tell = [this, id](const std::string& trouble) {
    self_->send(parts_.registrar, write_atom_v, parts_.rank, id, trouble);
  };
  auto by = spawn<piece_writer_actor, piece_writer_state>(
    self_->system(), placement::detached,
    piece_of_state{state, first_, places});
  self_->request(by, caf::infinite, write_atom_v)
    .then(
      [this, id, tell, state](bool written) {
        if (written)
          tell({});
        else
          leaving_.begin(id, state, to_registrar());
      },
      [tell](const caf::error& why) { tell(text_of(why)); });
}

payload
remote_shard_state::copy_state(std::span<const at::Tensor> slots) const {
  auto count = parts_.weights.count;
  auto weights = versions_.newest_flat();
  auto state = models::guarded("copying the state of a shard", [&] {
    return at::empty({static_cast<int64_t>(count * (slots.size() + 1))},
                     weights.options());
  });
  copy_numbers(part_of(state, count, 0), weights);
  for (size_t i = 0; i < slots.size(); ++i)
    copy_numbers(part_of(state, count, i + 1), slots[i]);
  return to_payload(std::move(state));
}

void remote_shard_state::credit(transfer_id id, uint64_t received) {
  if (!leaving_.credit(id, received, to_registrar()))
    self_->quit(caf::make_error(errc::protocol_violation,
                                std::string{"impossible credit"}));
}

} // namespace troupe
