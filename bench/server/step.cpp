// The parameter server's step on N gradients, beside a loop written by hand.

#include "bench/server/one_pass.hpp"
#include "bench/topics.hpp"
#include "config/text/failure.hpp"
#include "models/layout/weights_store.hpp"
#include "models/optim/aggregate.hpp"
#include "models/optim/optimizer.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <string>
#include <vector>

namespace troupe::bench {

namespace {

constexpr double lr = 0.01;
constexpr double momentum = 0.9;

struct model_size {
  const char* name;
  uint64_t count; ///< Parameters.
  size_t steps;   ///< Of one measurement.
};

constexpr model_size workloads[] = {{"lenet", 431'080, 200},
                                    {"resnet18", 11'173'962, 10}};

/// A server's memory, as it is in a run: versions, slots, pushed gradients.
struct ours {
  ours(const model_size& model, const char* optimizer_name)
    : layout(
        models::flat_layout::from({{"x", {static_cast<int64_t>(model.count)}}},
                                  config::scalar_type::float32)),
      store(model.count, layout.dtype()) {
    config::training_settings settings;
    settings.optimizer = optimizer_name;
    settings.momentum = momentum;
    optimizer = models::make_optimizer(settings, layout);
    auto first = store.next_buffer();
    first.fill_(0.1);
    store.publish(version{0}, std::move(first));
  }

  /// @param read Whether somebody still reads the version before.
  void step(std::span<const at::Tensor> gradients,
            std::span<const double> shares, bool read) {
    auto reader = read ? store.newest() : nullptr;
    auto next = store.step_buffer();
    auto current = store.newest();
    optimizer->step(next, current->flat, gradients, shares, lr);
    store.publish(current->id.next(), std::move(next));
  }

  models::flat_layout layout;
  models::weights_store store;
  std::unique_ptr<models::optimizer> optimizer;
};

class measurement {
public:
  measurement(const model_size& model, size_t n, const setting& how)
    : what_(model), rounds_(how.quick ? 1 : 9),
      steps_(how.quick ? 1 : model.steps), shares_(n, 64) {
    for (size_t i = 0; i < n; ++i) {
      gradients_.push_back(at::randn({static_cast<int64_t>(model.count)}) *
                           1e-3);
      pointers_.push_back(gradients_.back().const_data_ptr<float>());
    }
  }

  void run(report& out) {
    ours sgd{what_, "sgd"};
    ours adam{what_, "adam"};
    ours read{what_, "sgd"};
    auto weights = at::full({static_cast<int64_t>(what_.count)}, 0.1);
    auto buffer = at::zeros_like(weights);
    auto by_hand = [&] {
      one_pass_sgd(weights.mutable_data_ptr<float>(),
                   buffer.mutable_data_ptr<float>(), pointers_.data(),
                   pointers_.size(), what_.count, static_cast<float>(lr),
                   static_cast<float>(momentum));
    };
    auto found = alternate(
      rounds_,
      {repeat([&] { sgd.step(gradients_, shares_, false); }), repeat(by_hand),
       repeat([&] { check(); }), repeat([&] { check_by_hand(); }),
       repeat([&] { adam.step(gradients_, shares_, false); }),
       repeat([&] { read.step(gradients_, shares_, true); })},
      [&](size_t round) {
        out.progress(name("") + " round " + std::to_string(round + 1));
      });
    require_same(sgd.store.newest()->flat, weights);
    auto step_by_hand = ms(found[1]);
    out.add(compare(name("sgd"), ms(found[0]), "ms", "one pass by hand",
                    step_by_hand, better::lower));
    out.add(compare(name("sgd_read"), ms(found[5]), "ms", "one pass by hand",
                    step_by_hand, better::lower));
    out.add(compare(name("sgd_and_finite"), ms(found[0]) + ms(found[2]), "ms",
                    "one pass by hand", step_by_hand, better::lower));
    out.add(compare(name("finite"), ms(found[2]), "ms", "the same by hand",
                    ms(found[3]), better::lower));
    out.add(compare(name("adam"), ms(found[4]), "ms", "SGD by hand",
                    step_by_hand, better::lower));
  }

private:
  std::string name(const std::string& part) const {
    return "server/step/" + std::string{what_.name} + "/" +
           std::to_string(pointers_.size()) + "/" + part;
  }

  std::function<void()> repeat(const std::function<void()>& work) const {
    return [this, work] {
      for (size_t i = 0; i < steps_; ++i)
        work();
    };
  }

  double ms(const spent& x) const {
    return x.seconds * 1e3 / static_cast<double>(steps_);
  }

  void check() const {
    for (const auto& x : gradients_)
      if (!models::all_finite(x))
        throw run_error("random gradients are not finite");
  }

  void check_by_hand() const {
    for (const auto* x : pointers_)
      if (!one_pass_finite(x, what_.count))
        throw run_error("random gradients are not finite");
  }

  static void require_same(const at::Tensor& a, const at::Tensor& b) {
    if (!at::allclose(a, b, 1e-4, 1e-5))
      throw run_error("Troupe's step and the one by hand differ");
  }

  const model_size& what_;
  size_t rounds_;
  size_t steps_;
  std::vector<at::Tensor> gradients_;
  std::vector<const float*> pointers_;
  std::vector<double> shares_;
};

} // namespace

void measure_server_step(const setting& how, report& out) {
  out.begin("a parameter server's step on N gradients, one thread (target: a "
            "ratio of 0.91 for sgd)");
  at::set_num_threads(1);
  for (const auto& what : workloads)
    for (size_t n : {1, 2, 4, 8, 16})
      if (!how.quick || n == 2)
        measurement{what, n, how}.run(out);
}

} // namespace troupe::bench
