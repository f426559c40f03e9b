#define TROUPE_INSTRUCTION_SET baseline
#include "models/kernels/loops.hpp"
