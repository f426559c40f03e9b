#define TROUPE_INSTRUCTION_SET avx2
#include "models/kernels/loops.hpp"
