#include "config/schema/inner_optimizer.hpp"

#include "config/schema/optimizers.hpp"
#include "config/text/call_schema.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace troupe::config {

namespace {

/// A number from 0 up to, and without, 1.
value_range share_below_one() {
  return number_from(0, std::nextafter(1.0, 0.0));
}

/// The numbers that the optimiser of this name may be given.
call_schema numbers_of(const optimizer_facts& facts) {
  call_schema out{facts.name, {}};
  auto add = [&](std::string name, std::string placeholder, std::string help,
                 value_range range, std::string by_default) {
    auto optional = by_default.empty();
    out.parameters.push_back({std::move(name), std::move(placeholder),
                              std::move(help), std::move(range),
                              std::move(by_default), optional});
  };
  const training_settings usual;
  auto is_sgd = facts.has_momentum;
  add("lr", "X", "learning rate", number_above(0),
      print(is_sgd ? usual.lr : 0.001));
  add("weight-decay", "X", "as of [training]", number_from(0, 1e15), "0");
  add("clip-norm", "X", "largest L2 norm of a gradient", number_above(0), "");
  add("warmup-epochs", "X", "as of [training]", number_from(0, 1e9), "0");
  if (is_sgd) {
    add("momentum", "X", "of sgd", share_below_one(), print(usual.momentum));
    add("nesterov", "BOOL", "Nesterov's momentum",
        one_of_words({"false", "true"}), "false");
  } else {
    add("beta1", "X", "as of [training]", share_below_one(),
        print(usual.beta1));
    add("beta2", "X", "as of [training]", share_below_one(),
        print(usual.beta2));
    add("epsilon", "X", "as of [training]", number_above(0),
        print(facts.epsilon));
  }
  return out;
}

struct declaration {
  const optimizer_facts* facts;
  arguments numbers;
};

declaration read_inner_optimizer(std::string_view text) {
  text = trim(text);
  auto name = in_small_letters(std::string{name_of_call(text)});
  const auto* facts = find_optimizer(name);
  auto known = known_optimizers();
  if (facts == nullptr)
    throw bad_value(not_among(name, known));
  return {facts, read_arguments(numbers_of(*facts), text)};
}

} // namespace

void check_inner_optimizer(std::string_view text) {
  auto [facts, numbers] = read_inner_optimizer(text);
  if (numbers.has("nesterov") && numbers.text("nesterov") == "true" &&
      numbers.number("momentum") == 0)
    throw bad_value("nesterov needs a momentum above 0");
}

training_settings inner_training(const training_settings& of) {
  auto [facts, numbers] = read_inner_optimizer(of.inner_optimizer);
  auto out = of;
  out.local_steps = 0;
  out.optimizer = facts->name;
  out.lr = numbers.number("lr");
  out.weight_decay = numbers.number("weight-decay");
  out.warmup_epochs = numbers.number("warmup-epochs");
  out.lr_schedule = of.inner_lr_schedule;
  out.ema_decay = 0;
  out.clip_norm.reset();
  if (numbers.has("clip-norm"))
    out.clip_norm = numbers.number("clip-norm");
  out.momentum = numbers.has("momentum") ? numbers.number("momentum") : 0;
  out.nesterov = numbers.has("nesterov") && numbers.text("nesterov") == "true";
  if (numbers.has("beta1")) {
    out.beta1 = numbers.number("beta1");
    out.beta2 = numbers.number("beta2");
    out.epsilon = numbers.number("epsilon");
  }
  // It counts the steps of a worker.
  if (out.max_steps)
    out.max_steps = *out.max_steps * of.local_steps.most;
  if (out.schedule_steps)
    out.schedule_steps = *out.schedule_steps * of.local_steps.most;
  return out;
}

} // namespace troupe::config
