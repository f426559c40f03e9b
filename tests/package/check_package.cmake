# Run by CTest: BUILD is Troupe's build folder, SOURCE a project that uses
# Troupe, WORK a folder for all that comes of it.
cmake_minimum_required(VERSION 3.25)

function(run)
  list(JOIN ARGN " " line)
  message(STATUS ${line})
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE out
                                  ERROR_VARIABLE out)
  if(status)
    message(FATAL_ERROR "${line}: ${status}\n${out}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
# What was installed serves elsewhere, too.
file(RENAME ${WORK}/first ${WORK}/prefix)
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G Ninja
    -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_BUILD_TYPE=Release
    -D CMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build ${WORK}/build)

set(trainer ${WORK}/build/my_trainer)
run(${trainer} --list-networks)
if(NOT out MATCHES "two_layers [^\n]*50,890")
  message(FATAL_ERROR "two_layers with its 50,890 parameters is not listed:\n${out}")
endif()
run(${trainer} --simulate --network two_layers --workers 2 --max-steps 40
    --train-dir ${WORK}/run)
file(READ ${WORK}/run/summary.json summary)
string(JSON status GET "${summary}" status)
string(JSON accuracy GET "${summary}" final_accuracy)
if(NOT status STREQUAL completed OR accuracy LESS 0.3)
  message(FATAL_ERROR "the run has not learnt anything:\n${summary}")
endif()

# Its policy keeps the promises of policies, is known wherever ours are, and its
# weights and rates are in the event log, which is replayed with the same bits.
run(${WORK}/build/conform)
run(${trainer} --simulate --policy boosted\(size=3\) --workers 2 --check)
if(NOT out MATCHES "policy +boosted: nobody waits; a step has 3 gradients\n")
  message(FATAL_ERROR "the plan lacks the policy:\n${out}")
endif()
run(${trainer} --simulate --policy boosted\(size=3\) --boost 1.5 --workers 3
    --clock virtual --compute-time exp\(offset=0.5,mean=0.5\) --max-steps 30
    --tape --train-dir ${WORK}/weighted)
run(${trainer} --replay ${WORK}/weighted/tape-1.pb --train-dir ${WORK}/replayed)
foreach(kind IN ITEMS weighted replayed)
  file(READ ${WORK}/${kind}/summary.json summary)
  string(JSON policy GET "${summary}" policy)
  string(JSON sha_of_${kind} GET "${summary}" weights_sha256)
  if(NOT policy STREQUAL boosted)
    message(FATAL_ERROR "not a run of that policy:\n${summary}")
  endif()
endforeach()
if(NOT sha_of_weighted STREQUAL sha_of_replayed)
  message(FATAL_ERROR "the replay made other weights: ${sha_of_weighted}, "
                      "${sha_of_replayed}")
endif()

# Its optimiser has its slot in the plan, steps shards of the weights as it steps
# them whole, and goes on from a checkpoint as if there had been no stop.
set(lion --simulate --network two_layers --optimizer lion --lr 0.001
         --weight-decay 0.1 --workers 2 --clock virtual --gradients real
         --checkpoint-freq 20)
run(${trainer} ${lion} --max-steps 40 --check)
if(NOT out MATCHES "optimiser 203.6 kB")
  message(FATAL_ERROR "the plan lacks the optimiser's slot:\n${out}")
endif()
run(${trainer} ${lion} --max-steps 40 --train-dir ${WORK}/lion-whole)
run(${trainer} ${lion} --max-steps 20 --train-dir ${WORK}/lion-resumed)
run(${trainer} --simulate --resume --max-steps 40
    --train-dir ${WORK}/lion-resumed)
run(${trainer} ${lion} --max-steps 40 --shards 2 --train-dir
    ${WORK}/lion-shards)
foreach(kind IN ITEMS whole resumed shards)
  file(READ ${WORK}/lion-${kind}/summary.json summary)
  string(JSON accuracy GET "${summary}" final_accuracy)
  string(JSON sha_of_${kind} GET "${summary}" weights_sha256)
  if(accuracy LESS 0.5 OR NOT sha_of_${kind} STREQUAL sha_of_whole)
    message(FATAL_ERROR "${kind} has other weights than whole:\n${summary}")
  endif()
endforeach()

# Its data set is listed, known before it is loaded, and learnt.
run(${trainer} --list-datasets)
if(NOT out MATCHES "stripes +1x28x28 +4")
  message(FATAL_ERROR "the data set is not listed:\n${out}")
endif()
run(${trainer} --simulate --network two_layers --dataset stripes --check)
if(NOT out MATCHES "800 samples for training, 200 for testing; 4 classes")
  message(FATAL_ERROR "the plan does not know the data set:\n${out}")
endif()
run(${trainer} --simulate --network two_layers --dataset stripes --workers 2
    --epochs 10 --train-dir ${WORK}/stripes)
file(READ ${WORK}/stripes/summary.json summary)
string(JSON accuracy GET "${summary}" final_accuracy)
string(JSON samples GET "${summary}" samples_applied)
if(accuracy LESS 0.9 OR NOT samples EQUAL 8000)
  message(FATAL_ERROR "the stripes were not learnt:\n${summary}")
endif()

# Its loss is in the plan, and learnt with; there is less of it than of cross
# entropy.
set(focal --simulate --network two_layers --loss focal --workers 2)
run(${trainer} ${focal} --check)
if(NOT out MATCHES "loss focal")
  message(FATAL_ERROR "the plan lacks the loss:\n${out}")
endif()
run(${trainer} ${focal} --max-steps 60 --train-dir ${WORK}/focal)
file(READ ${WORK}/focal/summary.json summary)
string(JSON accuracy GET "${summary}" final_accuracy)
string(JSON loss GET "${summary}" final_loss)
if(accuracy LESS 0.3 OR loss GREATER 1.9)
  message(FATAL_ERROR "the loss was not made less:\n${summary}")
endif()

# The tutorial's program: a server, two trainers with loops of their own and an
# evaluator, each a process.
run(bash ${CMAKE_CURRENT_LIST_DIR}/run_tutorial.sh ${WORK}/build/remote_trainer
    ${WORK}/tutorial)
string(REGEX MATCHALL "training complete!\naccuracy [.0-9]+" found "${out}")
list(LENGTH found trainers)
if(NOT trainers EQUAL 2)
  message(FATAL_ERROR "two trainers should have told their accuracy:\n${out}")
endif()
file(READ ${WORK}/tutorial/run/summary.json summary)
string(JSON status GET "${summary}" status)
string(JSON contexts GET "${summary}" contexts_left)
string(JSON accuracy GET "${summary}" final_accuracy)
if(NOT status STREQUAL completed OR NOT contexts EQUAL 0 OR accuracy LESS 0.5)
  message(FATAL_ERROR "the trainers have not learnt anything:\n${summary}")
endif()

set(installed ${WORK}/prefix/bin/trainer_node)
run(${installed} --version)
run(ldd ${installed})
if(NOT out MATCHES "libtorch_cpu.so => (${WORK}/prefix/|/lib|/usr/lib)")
  message(FATAL_ERROR "the program has its LibTorch from elsewhere:\n${out}")
endif()
run(${installed} --simulate --workers 2 --max-steps 2 --train-dir ${WORK}/moved)
