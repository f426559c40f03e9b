#include "actors/user_process/bodies.hpp"

#include "actors/user_process/named_metrics.hpp"
#include "config/text/failure.hpp"

namespace troupe::external {

std::string lease_body(const lease& work, data::epoch_order& order) {
  auto indices =
    order.lease_indices(work.epoch, work.first, work.count, work.part);
  body_writer out;
  out.put(work.epoch).put(work.part).put(static_cast<uint32_t>(indices.size()));
  for (auto index : indices)
    out.put(static_cast<uint64_t>(index));
  return out.take_bytes();
}

std::string weights_body(const weights_terms& terms, const exchanged& gets,
                         const exchanged& gives) {
  return body_writer{}
    .put(terms.number.value)
    .put(static_cast<uint8_t>(terms.last_was_dropped))
    .put(static_cast<uint8_t>(terms.goes_on))
    .put(gets.block)
    .put(gives.block)
    .put(terms.steps)
    .put(gets.elements.first)
    .put(gets.elements.count)
    .put(gives.elements.first)
    .put(gives.elements.count)
    .take_bytes();
}

gradient_answer read_gradient(const std::string& body, const std::string& who) {
  body_reader in{std::as_bytes(std::span{body})};
  gradient_answer out;
  out.samples = in.number<uint64_t>();
  out.loss = in.number<double>();
  for (auto rest = in.number<uint32_t>(); rest > 0 && in.good(); --rest)
    out.also.push_back(in.number<uint64_t>());
  out.metrics = read_metrics(in, who);
  if (!in.complete())
    throw run_error(who + " sent a gradient's frame of another form");
  return out;
}

} // namespace troupe::external
