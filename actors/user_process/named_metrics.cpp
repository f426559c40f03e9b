#include "actors/user_process/named_metrics.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"

#include <utility>

namespace troupe::external {

config::metrics read_metrics(body_reader& in, const std::string& who) {
  auto count = in.number<uint32_t>();
  if (count > config::most_metrics)
    throw run_error(who + " sent " + std::to_string(count) +
                    " metrics; at most " +
                    std::to_string(config::most_metrics) + " are possible");
  config::metrics out;
  for (uint32_t i = 0; i < count && in.good(); ++i) {
    config::metric one;
    one.name = in.text();
    one.value = in.number<double>();
    if (in.good() && !config::is_metric_name(one.name))
      throw run_error(who + " sent a metric with the name " +
                      config::in_quotes(one.name) +
                      "; a letter comes first, then letters, digits and _.-/");
    out.push_back(std::move(one));
  }
  return out;
}

} // namespace troupe::external
