#pragma once
// What `./dev bench` can measure.

#include "bench/figures.hpp"

#include <filesystem>

namespace troupe::bench {

struct setting {
  bool quick = false; ///< As small as it goes: does it work at all?
  std::filesystem::path trainer_node; ///< The program that runs are made of.
};

// -- transport: how tensors get across ---------------------------------------

/// Round trips over each path.
void measure_transport(const setting& how, report& out);

/// Tensors that travel while they are made and used.
void measure_overlap(const setting& how, report& out);

/// Gradients that are made smaller, and whole again.
void measure_compression(const setting& how, report& out);

// -- server: what a parameter server does with gradients ----------------------

/// The mean of gradients and an optimiser's step on it.
void measure_server_step(const setting& how, report& out);

// -- data: how fast batches are made ------------------------------------------

/// Images a second of one core, from memory and from JPEG files.
void measure_batches(const setting& how, report& out);

// -- train: how fast a cluster learns
// ------------------------------------------

/// Samples a second of two workers, beside LibTorch alone.
void measure_lenet(const setting& how, report& out);
void measure_resnet(const setting& how, report& out);

// -- simulate: the virtual clock ----------------------------------------------

/// Policies and the step scheduler alone.
void measure_policy_events(const setting& how, report& out);

/// Whole runs without gradients.
void measure_growth(const setting& how, report& out);

/// Virtual runs with real gradients beside a plain LibTorch loop.
void measure_overhead(const setting& how, report& out);

} // namespace troupe::bench
