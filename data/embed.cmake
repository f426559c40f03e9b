# Writes a C++ source that holds FILE as the bytes of troupe::data::NAME.
# Usage: cmake -D FILE=... -D NAME=... -D OUTPUT=... -P embed.cmake
file(READ "${FILE}" bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE "${OUTPUT}"
"#include \"data/formats/embedded.hpp\"

namespace troupe::data {

namespace {

constexpr uint8_t ${NAME}_bytes[] = {
${bytes}
};

} // namespace

const std::span<const uint8_t> ${NAME}{${NAME}_bytes};

} // namespace troupe::data
")
