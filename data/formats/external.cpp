#include "config/text/failure.hpp"
#include "data/digest.hpp"
#include "data/formats/sources.hpp"

#include <utility>

namespace troupe::data {

namespace {

class external_store final : public sample_store {
public:
  external_store(config::external_data dataset, uint64_t size)
    : what_(std::move(dataset)), size_(size) {
    // nop
  }

  uint64_t size() const noexcept override { return size_; }

  int64_t label(uint64_t) const override { return 0; }

  picture load(uint64_t, const window_choice&) const override {
    throw run_error("--dataset " + config::to_string(what_) +
                    ": only processes of --compute external have its samples");
  }

  uint64_t content_digest() const override {
    digest out;
    out.add(std::string_view{what_.id});
    return out.value();
  }

  bool decodes() const noexcept override { return false; }

private:
  config::external_data what_;
  uint64_t size_;
};

} // namespace

source_pair make_external(const config::external_data& dataset) {
  auto part = [&dataset](uint64_t size) {
    return dataset_source{
      std::make_shared<external_store>(dataset, size), {1, 1, 1}, 0};
  };
  return {part(dataset.samples), part(0)};
}

} // namespace troupe::data
