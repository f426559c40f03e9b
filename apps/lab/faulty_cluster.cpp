#include "apps/lab/faulty_cluster.hpp"

#include "actors/links/local_link.hpp"
#include "actors/runtime/run_clock.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/server/restore.hpp"
#include "actors/session/session_client.hpp"
#include "apps/lab/simulation/fault_draw.hpp"
#include "apps/lab/simulation/fault_injector.hpp"
#include "apps/lab/simulation/invariant_checker.hpp"
#include "apps/lab/simulation/policy_changes.hpp"
#include "apps/lab/simulation/stalling_recorder.hpp"
#include "apps/trainer_node/one_process_cluster.hpp"
#include "apps/trainer_node/participants.hpp"
#include "config/report/report.hpp"
#include "config/runs/policy_change.hpp"
#include "config/text/failure.hpp"
#include "config/values/outliers.hpp"
#include "models/storage/checkpoint.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <utility>

namespace troupe::app {

namespace {

using simulation::invariant_checker;
using simulation::network;

void end_actor(const caf::strong_actor_ptr& who) {
  caf::anon_send_exit(caf::actor_cast<caf::actor>(who), caf::exit_reason::kill);
}

std::vector<config::fault> schedule_of(const config::settings& settings) {
  const auto& text = settings.simulation.faults;
  auto workers = settings.cluster.workers;
  if (auto random = config::parse_random_faults(text))
    return cores::draw_faults(*random, workers);
  return config::read_faults(text, workers);
}

/// Actors that die together, including those that one of them spawns as it
/// dies.
class virtual_process {
public:
  template <class Handle>
  void add(const Handle& who) {
    auto one = caf::actor_cast<caf::strong_actor_ptr>(who);
    if (over_)
      end_actor(one);
    else
      actors_.push_back(std::move(one));
  }

  void end() {
    over_ = true;
    for (const auto& one : std::exchange(actors_, {}))
      end_actor(one);
  }

private:
  std::vector<caf::strong_actor_ptr> actors_;
  bool over_ = false;
};

using process_ptr = std::shared_ptr<virtual_process>;

class faulty_cluster : public std::enable_shared_from_this<faulty_cluster> {
public:
  explicit faulty_cluster(faulty_cluster_parts parts)
    : all_(std::move(parts.all)), options_(std::move(parts.options)),
      plan_(std::move(parts.plan)), samples_(plan_.parts.data.samples),
      begin_(clock().now()),
      watch_(std::make_shared<invariant_checker>(rules())) {
    // nop
  }

  void start() {
    open_server();
    for (uint32_t i = 0; i < settings().cluster.workers; ++i)
      add_worker(worker_id{i});
    if (has_evaluator(all_))
      add_evaluator();
    add_fault_injector();
    simulation::spawn_policy_changes(
      all_.system,
      config::parse_policy_changes(settings().simulation.policy_changes),
      [this] {
        return server_ ? std::optional{server_->with.lead} : std::nullopt;
      },
      voice(options_.silent));
  }

  void stop() {
    if (server_)
      caf::anon_send(server_->with.lead, stop_atom_v);
    else
      options_.on_end({static_cast<uint8_t>(exit_status::try_again), {}});
  }

  /// Ends all actors.
  void strike() {
    over_ = true;
    close_server();
    for (const auto& [who, its] : std::exchange(processes_, {}))
      its->end();
    end_actor(fault_injector_);
  }

  std::optional<std::string> breach() {
    if (all_.modules)
      if (auto found = breach_of_modules())
        return found;
    return watch_->breach();
  }

  std::optional<std::string> last_breach() {
    auto last = models::newest_valid(directory_ / "checkpoints", nullptr);
    std::ifstream in{directory_ / "summary.json"};
    auto summary = nlohmann::json::parse(in);
    watch_->finish(last ? last->manifest : proto::Manifest{},
                   summary["samples_applied"]);
    if (all_.modules && all_.modules->contexts() > 0)
      return std::to_string(all_.modules->contexts()) +
             " contexts are open though the run is over";
    return watch_->breach();
  }

  const simulation::fault_counts& counts() const { return watch_->counts(); }

private:
  /// Says so if there are too many remote modules or contexts. A module ends
  /// with its worker's link. A worker that is back may have two, because its
  /// earlier link breaks only when its silence is noticed.
  std::optional<std::string> breach_of_modules() const {
    size_t workers = settings().cluster.workers;
    if (all_.modules->size() > 2 * workers)
      return std::to_string(all_.modules->size()) +
             " remote modules live, of at most two for each worker";
    if (all_.modules->contexts() >
        all_.modules->size() * remote_module_state::most_contexts)
      return std::to_string(all_.modules->contexts()) +
             " contexts are open, of at most two for each module";
    return std::nullopt;
  }

  const config::settings& settings() const { return all_.settings(); }

  caf::actor_clock& clock() const { return all_.system.clock(); }

  simulation::invariant_rules rules() const {
    simulation::invariant_rules out;
    out.policy = make_policy_spec(settings());
    out.samples = samples_;
    out.parts = parts_of_samples();
    out.norm_factor = config::parse_outliers(settings().training.outliers);
    if (settings().cluster.is_elastic())
      out.fewest = settings().cluster.fewest_workers();
    out.fragments = settings().training.fragments;
    out.liveness = settings().cluster.liveness_timeout;
    out.joining = settings().cluster.join_timeout;
    auto link = link_terms_of(all_);
    out.transfer =
      link.latency + static_cast<double>(link.tensor_bytes) / link.rate;
    out.now = [this] {
      std::chrono::duration<double> since = clock().now() - begin_;
      return since.count() - all_.machine->slept;
    };
    out.longest = [machine = all_.machine] {
      return machine->longest;
    };
    return out;
  }

  /// The number of samples of each rank, where ranks have parts of the data.
  std::vector<uint64_t> parts_of_samples() const {
    const auto& data = settings().data;
    auto workers = settings().cluster.workers;
    std::vector<uint64_t> out;
    if (data.sharding == config::sharding_kind::fixed)
      out.assign(workers,
                 cores::samples_of_part(samples_, workers, data.drop_last));
    for (const auto& own : all_.computing.own_data)
      out.push_back(own->size());
    return out;
  }

  // -- the server -------------------------------------------------------------

  /// Starts the first life of the server, or the next one from the newest
  /// checkpoint, as `--resume auto` does.
  void open_server() {
    all_.machine->begin_life();
    if (life_.value > 0)
      plan_next_life();
    life_ = life_.next();
    auto& parts = plan_.parts;
    parts.observer = watch_;
    parts.modules = all_.modules;
    parts.notes =
      recording::note_window{24, 8}; // So that a stall has an effect.
    parts.began = [machine = all_.machine] {
      return machine->began_in_life;
    };
    auto its = options_;
    its.on_end = [this](const run_end& how) {
      has_ended(how);
    };
    its.before_recorder = [this](const recorder_actor& real) {
      return simulation::spawn_stalling_recorder(all_.system, real,
                                                 all_.machine);
    };
    server_ = app::open_server(all_.system, its, std::move(parts), plan_.from);
    directory_ = server_->directory;
  }

  void plan_next_life() {
    auto say = voice(options_.silent);
    auto& training = plan_.config.values.training;
    training.train_dir = directory_.string();
    training.resume = "auto";
    training.overwrite = false;
    auto from = find_origin(plan_.config.values, say,
                            {plan_.from.directory.lock, nullptr});
    take_policy(from);
    plan_ = plan_server(plan_.config, plan_.data, from, say);
    choose_devices(plan_.computing);
    begin(plan_, say);
  }

  /// The run has the policy of its checkpoint, which may have changed.
  void take_policy(const origin& from) {
    auto& own = plan_.config.values;
    config::take_policy(own, from.checkpoint
                               ? from.checkpoint->manifest.config_ini()
                               : config::to_ini(settings()));
    watch_->follow(make_policy_spec(own));
  }

  void fail_server() {
    if (!server_) // It could not start again: the run is over.
      return;
    failing_ = true;
    caf::anon_send(server_->with.lead, refuse_atom_v,
                   std::string{failure_of_a_life});
  }

  /// A life that was told to fail may have ended for another reason just
  /// before; then that is the end of the run.
  void has_ended(const run_end& how) {
    auto asked = std::exchange(failing_, false);
    if (!asked || !how.failed() || how.line != failure_of_a_life)
      return options_.on_end(how);
    close_server();
    caf::anon_send(
      caf::actor_cast<simulation::fault_injector_actor>(fault_injector_),
      tick_atom_v);
  }

  void reopen_server() {
    if (over_)
      return;
    try {
      open_server();
    } catch (const failure& why) {
      options_.on_end({static_cast<uint8_t>(why.status()), why.what()});
    }
  }

  void close_server() {
    if (auto gone = std::exchange(server_, std::nullopt))
      std::ranges::for_each(gone->actors, end_actor);
  }

  std::optional<local_server> find() const {
    return server_ ? std::optional{server_->with} : std::nullopt;
  }

  // -- workers ----------------------------------------------------------------

  local_session_client_parts session_client_parts(uint64_t jitter) {
    local_session_client_parts out;
    out.connect_timeout = settings().cluster.connect_timeout;
    out.jitter_seed = jitter;
    return out;
  }

  process_ptr begin_process(worker_id who) {
    auto its = std::make_shared<virtual_process>();
    processes_[who] = its;
    return its;
  }

  void connect(const process_ptr& its, local_session_client_parts parts) {
    its->add(app::connect(all_.system, std::move(parts)));
  }

  void add_worker(worker_id who) {
    auto its = begin_process(who);
    auto parts = session_client_parts(who.value);
    parts.rank = who;
    parts.make = [this, who, its](const session_client_actor& session) {
      auto made = make_worker(all_, who, session);
      its->add(made);
      return made;
    };
    parts.find = [this, who] {
      return (*lines_)[who].cut(clock().now()) ? std::nullopt : find();
    };
    parts.tie = [this, who, its](const local_server& with,
                                 const participant& whom) {
      auto made =
        spawn_simulated_link(all_.system, make_far_end(all_, with.lead, who),
                             whom, link_terms_of(all_), faults_of(who));
      its->add(made.link);
      return made;
    };
    parts.transport = "simulated";
    parts.packs = all_.packs;
    parts.data = owned_by(parts_of_rank(all_.computing, who));
    parts.leases = cores::leases_for(settings().training.local_steps.most,
                                     settings().training.overlap_steps);
    watch_->process(who, true);
    connect(its, std::move(parts));
  }

  link_faults faults_of(worker_id who) {
    return {who, settings().cluster.liveness_timeout, lines_, watch_, [this] {
              return find();
            }};
  }

  void end_worker(worker_id who) { processes_.at(who)->end(); }

  // -- other processes --------------------------------------------------------

  /// Starts the evaluator, in a process of its own and with a link without
  /// faults.
  void add_evaluator() {
    auto its = begin_process(the_evaluator);
    auto parts = session_client_parts(the_evaluator.value);
    parts.make = [this, its](const session_client_actor& session) {
      auto made = make_evaluator(all_.system, all_.computing, session);
      its->add(made);
      return made;
    };
    parts.find = [this] {
      return find();
    };
    parts.tie = [this, its](const local_server& with, const participant& whom) {
      auto made =
        spawn_simulated_link(all_.system, {parameter_server_actor{with.lead}},
                             whom, link_terms_of(all_));
      its->add(made.link);
      return made;
    };
    connect(its, std::move(parts));
  }

  void add_fault_injector() {
    simulation::fault_injector_parts parts;
    parts.schedule = schedule_of(settings());
    parts.end_worker = [this](worker_id who) {
      end_worker(who);
    };
    parts.start_worker = [this](worker_id who) {
      add_worker(who);
    };
    parts.end_server = [this] {
      close_server();
    };
    parts.fail_server = [this] {
      fail_server();
    };
    parts.start_server = [this] {
      reopen_server();
    };
    parts.machine = all_.machine;
    parts.lines = lines_;
    parts.watch = watch_;
    auto who = simulation::spawn_fault_injector(all_.system, std::move(parts));
    fault_injector_ = caf::actor_cast<caf::strong_actor_ptr>(who);
  }

  static constexpr worker_id the_evaluator{UINT32_MAX};
  static constexpr std::string_view failure_of_a_life =
    "a life of the server was to fail";

  virtual_members all_;
  life_options options_;
  server_plan plan_; ///< Of this life or, while the server is down, the last.
  uint64_t samples_; ///< In an epoch.
  caf::actor_clock::time_point begin_;
  std::shared_ptr<invariant_checker> watch_;
  std::shared_ptr<network> lines_ = std::make_shared<network>();
  std::optional<server_life> server_; ///< Empty while it is down.
  life_number life_{0};
  std::filesystem::path directory_;
  std::map<worker_id, process_ptr> processes_;
  caf::strong_actor_ptr fault_injector_;
  bool failing_ = false; ///< The server was told to fail.
  bool over_ = false;
};

} // namespace

// The actors refer to the cluster. So the functions that stop the actors keep
// the cluster alive.
virtual_cluster start_faulty_cluster(faulty_cluster_parts parts) {
  auto cluster = std::make_shared<faulty_cluster>(std::move(parts));
  cluster->start();
  virtual_cluster out;
  out.stop = [cluster] {
    cluster->stop();
  };
  out.breach = [cluster](bool over) {
    return over ? cluster->last_breach() : cluster->breach();
  };
  out.strike = [cluster] {
    cluster->strike();
  };
  out.counts = [cluster] {
    return cluster->counts();
  };
  return out;
}

} // namespace troupe::app
