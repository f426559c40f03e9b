#define TROUPE_INSTRUCTION_SET avx512
#include "models/kernels/loops.hpp"
