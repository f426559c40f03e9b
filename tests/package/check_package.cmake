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

set(installed ${WORK}/prefix/bin/trainer_node)
run(${installed} --version)
run(ldd ${installed})
if(NOT out MATCHES "libtorch_cpu.so => (${WORK}/prefix/|/lib|/usr/lib)")
  message(FATAL_ERROR "the program has its LibTorch from elsewhere:\n${out}")
endif()
run(${installed} --simulate --workers 2 --max-steps 2 --train-dir ${WORK}/moved)
