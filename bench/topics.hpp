#pragma once
// The topics that `./dev bench` can measure. Main calls one function after
// another.

#include "bench/figures.hpp"

#include <filesystem>

namespace troupe::bench {

struct setting {
  bool quick = false; ///< Smallest sizes: only checks that it works.
  std::filesystem::path trainer_node; ///< The program that is run.
  std::filesystem::path python;       ///< One that has torch; empty: none.
};

// -- transport: how tensors are transferred ----------------------------------

/// Round trips over each path.
void measure_transport(const setting& how, report& out);

/// Tensors sent while they are computed and used.
void measure_overlap(const setting& how, report& out);

/// The same over TLS.
void measure_encryption(const setting& how, report& out);

/// Compressing and restoring gradients.
void measure_compression(const setting& how, report& out);

// -- server: what a parameter server does with gradients ----------------------

/// The mean of gradients and an optimiser's step on it.
void measure_server_step(const setting& how, report& out);

// -- data: how fast batches are made ------------------------------------------

/// Images per second of one core, from memory and from JPEG files.
void measure_batches(const setting& how, report& out);

// -- train: how fast a cluster learns -----------------------------------------

/// Samples per second of two workers, next to LibTorch alone.
void measure_lenet(const setting& how, report& out);
void measure_resnet(const setting& how, report& out);
void measure_wide(const setting& how, report& out);

/// The same where workers make local steps.
void measure_rounds_of_lenet(const setting& how, report& out);
void measure_rounds_of_resnet(const setting& how, report& out);
void measure_rounds_of_wide(const setting& how, report& out);

/// How long they wait for the weights between two rounds.
void measure_exchange(const setting& how, report& out);

// -- parallel: networks in segments, peers ------------------------------------

/// Remote modules, next to LibTorch alone.
void measure_remote_forward(const setting& how, report& out);

/// The cost of the messages of remote modules.
void measure_remote_control(const setting& how, report& out);

/// A pipeline, next to LibTorch alone.
void measure_pipeline(const setting& how, report& out);

/// Peers, next to a server with workers and to DistributedDataParallel.
void measure_peer_nodes(const setting& how, report& out);
void measure_peers_over_stream(const setting& how, report& out);

/// The same where one node is slow.
void measure_slow_peer(const setting& how, report& out);

/// The memory that remains of contexts which nobody finished.
void measure_contexts(const setting& how, report& out);

// -- peers: other systems that do the same ------------------------------------

/// Samples per second of two workers, next to PyTorch's own ways.
void compare_lenet(const setting& how, report& out);
void compare_resnet(const setting& how, report& out);
void compare_wide(const setting& how, report& out);

// -- cluster: elastic training while workers are killed -----------------------

/// Goodput, pauses and samples, next to torchrun and torchft.
void measure_killed_workers(const setting& how, report& out);

// -- python: workers whose gradients Python computes
// ----------------------------

/// Samples per second of two, next to loops in Python, C++ and PyTorch's ways.
void measure_python_lenet(const setting& how, report& out);

/// The steps of these workers alone, next to round trips of a C++ worker.
void measure_python_steps(const setting& how, report& out);

/// The time that these workers take to begin.
void measure_python_start(const setting& how, report& out);

// -- simulate: the virtual clock ----------------------------------------------

/// Policies and the step scheduler alone.
void measure_policy_events(const setting& how, report& out);

/// Whole runs without gradients.
void measure_growth(const setting& how, report& out);

/// Virtual runs with real gradients beside a plain LibTorch loop.
void measure_overhead(const setting& how, report& out);

} // namespace troupe::bench
