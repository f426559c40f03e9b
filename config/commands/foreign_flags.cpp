#include "config/commands/foreign_flags.hpp"

#include <algorithm>
#include <array>

namespace troupe::config {

namespace {

struct foreign_flag {
  std::string_view name;
  std::string_view here;
};

constexpr std::string_view on_gpu =
  "here it is --device cuda, for workers and evaluators";
constexpr std::string_view on_cpu = "leave it out: --device cpu is the default";
constexpr std::string_view by_launcher =
  "leave it out: --role auto takes it from the launcher's variables";
constexpr std::string_view in_metrics =
  "leave it out: each step is a line of metrics.jsonl in the run directory";
constexpr std::string_view batch_of_each =
  "here it is --batch-size N, of each worker, or --global-batch-size N, of all";
constexpr std::string_view weights_file =
  "here it is --init FILE, weights that torch.save wrote";
constexpr std::string_view scoring_alone =
  "here it is --evaluate, with --init FILE or --resume PATH";
constexpr std::string_view step_schedule =
  "here it is --lr-schedule 'step(every=30,factor=0.1)'";

/// Names have '-' where the other program has '_'.
constexpr std::array<foreign_flag, 52> foreign_flags{{
  // main.py
  {"-a", "here it is --network NAME"},
  {"--arch", "here it is --network NAME"},
  {"-j", "here it is --threads N; each process decodes its next batch while it "
         "computes"},
  {"-b", batch_of_each},
  {"--wd", "here it is --weight-decay X"},
  {"--learning-rate", "here it is --lr X"},
  {"-p", in_metrics},
  {"--print-freq", in_metrics},
  {"-e", scoring_alone},
  {"--pretrained", weights_file},
  {"--start-epoch", "leave it out: --resume goes on at the checkpoint's epoch"},
  {"--world-size", "here it is --workers N, which counts workers alone"},
  {"--dist-url", "here it is --init-method URL"},
  {"--dist-backend", "here it is --transport NAME"},
  {"--gpu", on_gpu},
  {"--no-accel", on_cpu},
  {"--multiprocessing-distributed",
   "here it is trainer_node launch, or --role auto under torchrun"},
  {"--dummy", "here it is --dataset "
              "'synthetic(shape=3x224x224,classes=100,samples=10000)'"},
  // torchvision's references
  {"--model", "here it is --network NAME"},
  {"--data-path", "here it is --data-dir DIR"},
  {"--data", "here it is --data-dir DIR"},
  {"--opt", "here it is --optimizer NAME"},
  {"--output-dir", "here it is --train-dir DIR"},
  {"--test-only", scoring_alone},
  {"--weights", weights_file},
  {"--amp", "here it is --autocast fp16, or bf16"},
  {"--fp16", "here it is --autocast fp16"},
  {"--clip-grad-norm", "here it is --clip-norm X"},
  {"--model-ema", "here it is --ema-decay X"},
  {"--model-ema-decay", "here it is --ema-decay X"},
  {"--lr-step-size", step_schedule},
  {"--lr-gamma", step_schedule},
  {"--lr-warmup-epochs", "here it is --warmup-epochs X"},
  {"--sync-bn",
   "leave it out: --buffers average averages the running statistics"},
  // torchrun and the tutorials
  {"--local-rank", by_launcher},
  {"--node-rank", by_launcher},
  {"--nnodes", by_launcher},
  {"--nproc-per-node", by_launcher},
  {"--master-addr", "here it is --host HOST"},
  {"--master-port", "here it is --port PORT"},
  {"--num-gpus", on_gpu},
  // ps_pytorch
  {"--num-aggregate",
   "here it is --policy backup --backup-workers B, the workers that a step "
   "does not wait for"},
  {"--kill-threshold",
   "leave it out: a step is made when it has its gradients; --late cancel "
   "ends the other computations"},
  {"--comm-type", "here it is --transport NAME"},
  {"--compress-grad", "here it is --compression fp16|bf16|int8|topk(share=X)"},
  {"--test-batch-size", "here it is --eval-batch-size N"},
  {"--model-dir", "here it is --follow DIR"},
  {"--log-interval", in_metrics},
  {"--enable-gpu", on_gpu},
  {"--no-cuda", on_cpu},
  {"--cuda", on_gpu},
  {"--use-cuda", on_gpu},
}};

/// "-b64" is "-b", "--dist_url=x" is "--dist-url".
std::string plain_name(std::string_view typed) {
  std::string name{typed.substr(0, typed.find('='))};
  constexpr size_t short_flag = 2;
  auto is_short = name.size() > short_flag && name[1] != '-' &&
                  name[short_flag] >= '0' && name[short_flag] <= '9';
  if (is_short)
    name.resize(short_flag);
  std::ranges::replace(name, '_', '-');
  return name;
}

} // namespace

std::string hint_for_foreign(std::string_view typed) {
  auto found =
    std::ranges::find(foreign_flags, plain_name(typed), &foreign_flag::name);
  return found == foreign_flags.end() ? "" : "; " + std::string{found->here};
}

} // namespace troupe::config
