#pragma once
// The headers of the frames that the two ends of a collective path
// (collective_carrier.hpp) exchange besides requests and answers. Plain values.

#include "messages/ids.hpp"
#include "messages/transport/nccl/rendezvous.hpp"

#include <algorithm>
#include <string>

namespace troupe::transport {

/// Worker to server (`frame_kind::meet`): it wants to take part in collectives.
struct collective_attendance {
  worker_id worker;
};

/// Server to worker: join this communicator.
struct collective_call {
  nccl::epoch number;
  uint32_t rank = 0;
  uint32_t size = 0;
  nccl::id_bytes id{};
};

enum class collective_stage : uint8_t { accepted = 1, declined, ready, broken };

/// Worker to server: how far joining has got.
struct collective_answer {
  nccl::epoch number;
  collective_stage stage = collective_stage::accepted;
  std::string why; ///< For `declined` and `broken`: one line.
};

/// Server to worker: all are ready, so gradients may be offered.
struct collective_open {
  nccl::epoch number;
};

/// Server to worker: the communicator has ended.
struct collective_over {
  nccl::epoch number;
  std::string why;
};

/// Server to worker: add the offered gradient, times `scale`, to the sum.
struct collective_give {
  nccl::epoch number;
  double scale = 1;
};

template <class Inspector>
bool inspect(Inspector& f, collective_attendance& x) {
  return f.object(x).fields(f.field("worker", x.worker));
}

template <class Inspector>
bool inspect(Inspector& f, collective_call& x) {
  std::string id(x.id.size(), '\0');
  auto* raw = reinterpret_cast<char*>(x.id.data());
  std::copy_n(raw, id.size(), id.data());
  auto done =
    f.object(x).fields(f.field("number", x.number), f.field("rank", x.rank),
                       f.field("size", x.size), f.field("id", id)) &&
    id.size() == x.id.size();
  if (done && Inspector::is_loading)
    std::copy_n(id.data(), id.size(), raw);
  return done;
}

template <class Inspector>
bool inspect(Inspector& f, collective_stage& x) {
  auto get = [&] {
    return static_cast<uint8_t>(x);
  };
  auto set = [&](uint8_t number) {
    x = collective_stage{number};
    return number >= 1 && number <= 4;
  };
  return f.apply(get, set);
}

template <class Inspector>
bool inspect(Inspector& f, collective_answer& x) {
  return f.object(x).fields(f.field("number", x.number),
                            f.field("stage", x.stage), f.field("why", x.why));
}

template <class Inspector>
bool inspect(Inspector& f, collective_open& x) {
  return f.object(x).fields(f.field("number", x.number));
}

template <class Inspector>
bool inspect(Inspector& f, collective_over& x) {
  return f.object(x).fields(f.field("number", x.number), f.field("why", x.why));
}

template <class Inspector>
bool inspect(Inspector& f, collective_give& x) {
  return f.object(x).fields(f.field("number", x.number),
                            f.field("scale", x.scale));
}

} // namespace troupe::transport
