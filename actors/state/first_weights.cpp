#include "actors/state/first_weights.hpp"

#include "config/text/text.hpp"
#include "config/values/key_patterns.hpp"
#include "models/network.hpp"
#include "models/weights/taken_weights.hpp"

#include <ATen/ops/empty.h>

namespace troupe {

namespace {

std::vector<std::string> lines_of(const models::weights_file& from,
                                  const models::taken_weights& taken) {
  auto all = taken.count + taken.skipped.size();
  std::vector<std::string> out{
    from.path().string() + ": " + std::to_string(taken.count) + " of " +
    config::count(all, "tensor") + ", SHA-256 " + from.sha256()};
  if (!taken.skipped.empty())
    out.push_back("as usual, not from the file: " +
                  config::join(taken.skipped, ", "));
  if (from.has_optimizer())
    out.emplace_back("the optimizer's state in the file is not used");
  return out;
}

} // namespace

std::shared_ptr<const first_weights>
read_first_weights(const config::training_settings& settings, int64_t classes) {
  if (settings.init.empty())
    return nullptr;
  models::weights_file file{settings.init};
  auto skip = config::parse_key_patterns(settings.init_skip);
  auto net = models::make_network(settings.network, classes, settings.dtype);
  auto layout = models::flat_layout::from(net->module());
  auto out = std::make_shared<first_weights>();
  if (skip.empty()) {
    net.reset(); // The file has all, and the network is as large.
    out->flat = at::empty({static_cast<int64_t>(layout.count())},
                          models::to_aten(layout.dtype()));
  } else {
    models::initialise(*net, settings.seed);
    out->flat = models::gather(net->module(), layout);
  }
  auto taken =
    models::take_weights(file, settings.network, layout, skip, out->flat);
  out->from = {settings.init, file.sha256(), settings.init_skip};
  out->lines = lines_of(file, taken);
  return out;
}

} // namespace troupe
