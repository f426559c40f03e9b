// A program whose loss has the name of one of ours.

#include "models/engine/loss.hpp"

namespace {

const troupe::models::register_loss mine{
  {"cross-entropy", [](const auto&) {
     return [](const at::Tensor& scores, const at::Tensor&,
               at::Reduction::Reduction) {
       return scores;
     };
   }}};

} // namespace
