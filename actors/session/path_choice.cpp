#include "actors/session/path_choice.hpp"

#include "config/text/failure.hpp"
#include "messages/transport/wire/meeting.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace troupe {

using transport::path_row;

namespace {

/// Seconds for a connection, and again for its welcome: the server has just
/// answered on another connection.
constexpr double patience = 3;

} // namespace

path_choice::path_choice(std::string wanted, transport::path_means means,
                         std::function<void(const std::string&)> say)
  : wanted_(std::move(wanted)), means_(std::move(means)), say_(std::move(say)) {
  // nop
}

// The path that is wanted, then the one that replaces it where it fails. For
// `auto`, what is on a GPU is not copied to the host's memory without need.
std::vector<const path_row*> path_choice::candidates() const {
  std::vector<const path_row*> out;
  if (wanted_ == "auto") {
    for (const auto& each : transport::path_rows())
      if (each.facts.automatic && each.near_end)
        out.push_back(&each);
    std::ranges::stable_partition(
      out, [](const path_row* each) { return each->facts.needs_gpu; });
    return out;
  }
  for (const auto* row = transport::find_row(wanted_); row && row->near_end;
       row = transport::find_row(row->facts.instead))
    out.push_back(row);
  return out;
}

bool path_choice::rests(const std::string& name, double now) const {
  auto found = resting_.find(name);
  return found != resting_.end() && now < found->second;
}

bool path_choice::skip(const std::string& name, double now) {
  const auto* wanted = transport::find_row(wanted_);
  auto replaced = wanted_ == "auto" ||
                  (wanted && name == wanted_ && !wanted->facts.instead.empty());
  if (replaced)
    resting_[name] = now + rest;
  return replaced;
}

void path_choice::meet(const std::string& life) {
  if (std::exchange(life_, life) != life)
    resting_.clear();
}

// Without shared memory for a gradient, for example, the path would break at
// the first push.
bool path_choice::fits(const path_row& row, const proto::PathOffer& offer,
                       uint64_t bytes) {
  const auto& name = row.facts.name;
  if (unfit_.contains(name))
    return false;
  auto possible = !row.possible || row.possible(means_);
  std::optional<std::string> trouble;
  if (!possible)
    trouble = "not wanted here";
  else if (row.trouble)
    trouble = row.trouble(means_, offer, bytes);
  if (!trouble)
    return true;
  if (wanted_ == name && row.facts.instead.empty())
    throw run_error("--transport " + name + ": " + *trouble + "; " +
                    row.remedy + ", or --transport auto");
  // For `auto` it is one of several, as good where there is one GPU.
  if (possible && (wanted_ == name || !row.facts.needs_gpu))
    say_("path         " + name + " is not used: " + *trouble);
  unfit_.insert(name);
  return false;
}

transport::path_ptr
path_choice::open(const path_row& row, const proto::PathOffer& offer,
                  const config::address& at,
                  const transport::path_terms& terms) const {
  auto line = row.facts.across == config::reach::host
                ? transport::socket{transport::connect_unix(offer.shm_name())}
                : transport::connect_securely(at, means_.own, patience);
  transport::open_line(line, transport::purpose::tensors, offer.token(),
                       patience);
  return row.near_end(std::move(line), terms, means_);
}

transport::path_ptr path_choice::connect(const proto::PathOffer& offer,
                                         const config::address& at,
                                         const transport::path_terms& terms,
                                         double now) {
  const auto* wanted = transport::find_row(wanted_);
  if (wanted && !(wanted->offered && wanted->offered(offer)))
    throw run_error("--transport " + wanted_ +
                    ": the parameter server does not offer this path; give "
                    "both nodes the same transport, or auto");
  for (const auto* row : candidates()) {
    const auto& name = row->facts.name;
    if (rests(name, now) || !row->offered(offer) ||
        !fits(*row, offer, terms.most_region_bytes()))
      continue;
    try {
      return open(*row, offer, at, terms);
    } catch (const transport::path_error&) {
      if (wanted_ == name)
        throw;
    }
  }
  return nullptr;
}

} // namespace troupe
