# Makes builds of everything from nothing (run.sh) take less time.

# Most of the time of compiling these targets goes into headers of gRPC, protobuf and GoogleTest. Off by default, since it hides
# an #include that is missing, and other compilers' tools cannot read it.
option(WIDELANE_PCH "Precompile the headers of libraries" OFF)

# What sanitizers watch over is the product; optimising the tests' own code would cost more than it gains.
if(WIDELANE_SANITIZER)
  foreach(target widelane_test_support server_test client_test integration_test)
    target_compile_options(${target} PRIVATE -O0)
  endforeach()
endif()

if(WIDELANE_PCH)
  set(standard <algorithm> <atomic> <chrono> <functional> <map> <memory> <mutex> <optional> <sstream> <string> <thread> <vector>
    <absl/status/statusor.h> <absl/strings/str_cat.h>)
  set(rpc <grpcpp/grpcpp.h> <widelane/v1/scoring.grpc.pb.h> ${standard})
  target_precompile_headers(widelane_cli PRIVATE <CLI/CLI.hpp> ${standard})
  target_precompile_headers(widelane_server PRIVATE ${rpc} <spdlog/spdlog.h>)
  target_precompile_headers(widelane_test_support PRIVATE ${rpc} <gtest/gtest.h>)
  target_precompile_headers(server_test PRIVATE ${rpc} <gtest/gtest.h>)
  target_precompile_headers(client_test PRIVATE ${rpc} <gmock/gmock.h> <gtest/gtest.h>)
  target_precompile_headers(integration_test PRIVATE ${rpc} <gtest/gtest.h>)
  target_precompile_headers(engine_test PRIVATE <gtest/gtest.h> ${standard})
endif()
