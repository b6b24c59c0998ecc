# quire_room(NAME SOURCES ... DEPS ...): one folder of src/ as a static library `quire_NAME` with the project's warnings.
# Floating-point contraction is off everywhere: fused multiply-adds appear only where a kernel asks for them by name, so
# that one source gives one result (docs/NUMERICS.md).
add_library(quire_warnings INTERFACE)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(quire_warnings INTERFACE -w -ffp-contract=off)  # fuzz builds look for crashes; g++ judges the source
else()
  target_compile_options(quire_warnings INTERFACE
    -Wall -Wextra -Werror -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor -Woverloaded-virtual -ffp-contract=off
    # g++ 12 sees overflows in inlined library code that are not there; sanitizer builds look for the real ones.
    -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds -Wno-restrict -Wno-maybe-uninitialized
    # Designated initializers leave the other members at their defaults on purpose.
    -Wno-missing-field-initializers)
endif()

function(quire_room name)
  cmake_parse_arguments(R "" "" "SOURCES;DEPS" ${ARGN})
  if(R_SOURCES)
    add_library(quire_${name} STATIC ${R_SOURCES})
    target_include_directories(quire_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(quire_${name} PRIVATE quire_warnings PUBLIC ${R_DEPS})
  else()
    add_library(quire_${name} INTERFACE)
    target_include_directories(quire_${name} INTERFACE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(quire_${name} INTERFACE ${R_DEPS})
  endif()
endfunction()

# quire_test_limit(NAME SECONDS): a test's bound against hanging. Sanitizers slow a test down 5 to 20 times, so their builds
# multiply every bound here and nowhere else.
set(QUIRE_TEST_SLOWDOWN 1)
if(QUIRE_SANITIZE)
  set(QUIRE_TEST_SLOWDOWN 6)
endif()
function(quire_test_limit name seconds)
  math(EXPR limit "${seconds} * ${QUIRE_TEST_SLOWDOWN}")
  set_tests_properties(${name} PROPERTIES TIMEOUT ${limit})
endfunction()

# quire_test(NAME SOURCES ... DEPS ...): one GoogleTest binary per room, `NAME_test`, registered as one ctest entry.
function(quire_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  add_executable(${name}_test ${T_SOURCES})
  target_link_libraries(${name}_test PRIVATE quire_warnings ${T_DEPS} quire_test_kit GTest::gmock GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name}_test PRIVATE QUIRE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name}_test)
  quire_test_limit(${name} ${T_TIMEOUT})
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}")
endfunction()
