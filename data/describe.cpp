#include "data/describe.hpp"

#include "config/text/failure.hpp"

namespace troupe::data {

namespace {

std::optional<config::data_part> part_of(const dataset* set) {
  if (!set)
    return std::nullopt;
  return config::data_part{set->size(), set->digest(), set->content_digest()};
}

} // namespace

config::data_description describe(const dataset* train, const dataset* test) {
  config::data_description out;
  const auto* any = train ? train : test;
  if (!any)
    return out;
  out.name = any->name();
  out.classes = static_cast<uint64_t>(any->classes());
  auto shape = any->shape();
  for (size_t i = 0; i < shape.size() && i < out.shape.size(); ++i)
    out.shape[i] = static_cast<uint64_t>(shape[i]);
  out.train = part_of(train);
  out.test = part_of(test);
  return out;
}

void require_same_test(const config::run_description& run, const dataset& test,
                       const std::string& where) {
  config::run_description here;
  here.data = describe(nullptr, &test);
  auto all = config::differences(run, here, config::relation::join);
  if (!all.empty())
    throw run_error(where +
                    ": the test data of the run are not those of this node: " +
                    config::to_string(all.front()));
}

} // namespace troupe::data
