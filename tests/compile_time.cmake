# Makes builds of everything from nothing (run.sh) take less time.

# Most of the time of compiling these targets goes into headers of gRPC, protobuf and GoogleTest. Off by default, since it hides
# an #include that is missing, and other compilers' tools cannot read it. ccache does not keep what is compiled with it, so a
# build whose product other builds are to have as well precompiles for TESTS that no other build has.
set(WIDELANE_PCH OFF CACHE STRING "Precompile the headers of libraries: for ALL targets, for TESTS of the server and the client, or OFF")
set_property(CACHE WIDELANE_PCH PROPERTY STRINGS OFF TESTS ALL)

# What sanitizers watch over is the product; optimising the tests' own code would cost more than it gains.
if(WIDELANE_SANITIZER)
  foreach(target widelane_test_support server_test client_test integration_test)
    target_compile_options(${target} PRIVATE -O0)
  endforeach()
endif()

set(standard <algorithm> <atomic> <chrono> <functional> <map> <memory> <mutex> <optional> <sstream> <string> <thread> <vector>
  <absl/status/statusor.h> <absl/strings/str_cat.h>)
set(rpc <grpcpp/grpcpp.h> <widelane/v1/scoring.grpc.pb.h> ${standard})
if(WIDELANE_PCH)
  target_precompile_headers(server_test PRIVATE ${rpc} <gtest/gtest.h>)
  target_precompile_headers(client_test PRIVATE ${rpc} <gmock/gmock.h> <gtest/gtest.h>)
  target_precompile_headers(integration_test PRIVATE ${rpc} <gtest/gtest.h>)
endif()
if(WIDELANE_PCH STREQUAL "ALL")
  target_precompile_headers(widelane_engine PRIVATE ${standard})
  # These have flags of their own.
  foreach(kernels plain avx2 avx512)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/engine/src/cpu/row_kernels_${kernels}.cc
      TARGET_DIRECTORY widelane_engine PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  endforeach()
  target_precompile_headers(widelane_cli PRIVATE <CLI/CLI.hpp> ${standard})
  target_precompile_headers(widelane_server PRIVATE ${rpc} <spdlog/spdlog.h>)
  target_precompile_headers(widelane_test_support PRIVATE ${rpc} <gtest/gtest.h>)
  target_precompile_headers(engine_test PRIVATE <gtest/gtest.h> ${standard})
endif()
