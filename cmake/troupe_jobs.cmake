# No more compilers at a time than there are cores and room in memory, however the
# build is started (Ninja).

execute_process(
  COMMAND bash ${PROJECT_SOURCE_DIR}/cmake/setup/jobs.sh
  OUTPUT_VARIABLE troupe_jobs
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set_property(GLOBAL PROPERTY JOB_POOLS compiling=${troupe_jobs})
set(CMAKE_JOB_POOL_COMPILE compiling)
set(CMAKE_JOB_POOL_PRECOMPILE_HEADER compiling)
