# Makes builds of everything from nothing (run.sh) take less time; README.md tells how much.

# Most of the time of compiling these targets goes into the headers of gRPC, protobuf, JSON and GoogleTest, and into their templates: files
# that are compiled as one share both. Off by default, since a change then compiles many files anew and an #include that is
# missing goes unseen. A build whose product others are to have from ccache joins only TESTS that no other build has.
set(WIDELANE_UNITY OFF CACHE STRING "Compile files of one target together: of ALL targets, of TESTS of the server and the client, or OFF")
set_property(CACHE WIDELANE_UNITY PROPERTY STRINGS OFF TESTS ALL)

# What sanitizers watch over is the product; optimising the tests' own code would cost more than it gains.
if(WIDELANE_SANITIZER)
  foreach(target widelane_test_support server_test client_test integration_test)
    target_compile_options(${target} PRIVATE -O0)
  endforeach()
endif()

# So many files at once that two cores still have work to share.
set(joined)
if(WIDELANE_UNITY)
  list(APPEND joined server_test client_test integration_test)
endif()
if(WIDELANE_UNITY STREQUAL "ALL")
  list(APPEND joined widelane_engine widelane_client widelane_cli widelane_server widelane_test_support engine_test)
endif()
if(joined)
  set_target_properties(${joined} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  # GCC takes what is not the main file for a header, and warns of types that a header must not have.
  foreach(target ${joined})
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endforeach()
endif()

# apart TARGET FOLDER FILE ...: files that are compiled alone all the same.
function(apart target folder)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/${folder}/)
  set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
# Flags of their own, and the same names for other instructions.
apart(widelane_engine engine/src/cpu row_kernels_plain.cc row_kernels_avx2.cc row_kernels_avx512.cc)
# Include folders of its own.
apart(widelane_server server server_with_devices.cc)
# Each command has Options or Arguments of its own.
apart(widelane_cli client/cli bench_engine_command.cc bench_model_command.cc bench_server_command.cc healthcheck_command.cc
  import_command.cc models_command.cc score_command.cc trace_command.cc)
# Names that metrics.cc has, too.
apart(widelane_server server/observe triton_metrics.cc)
# Counts what `new` is called for, which it replaces.
apart(engine_test tests/engine no_allocation_test.cc)
