# twin_library(NAME SOURCES ... EXPORTS pattern...): libNAME.so whose dynamic symbols are exactly the patterns.
# Standard library templates would otherwise leak out as weak symbols and meet torch's, built with another ABI.
function(twin_library name)
    cmake_parse_arguments(ARG "" "" "SOURCES;EXPORTS" ${ARGN})
    add_library(${name} SHARED ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE twin_headers)
    set(script ${CMAKE_CURRENT_BINARY_DIR}/${name}.map)
    set(text "{\n")
    if(ARG_EXPORTS)
        string(REPLACE ";" "; " patterns "${ARG_EXPORTS}")
        string(APPEND text "global: ${patterns};\n")
    endif()
    file(WRITE ${script} "${text}local: *;\n};\n")
    set_target_properties(${name} PROPERTIES LINK_DEPENDS ${script})
    target_link_options(${name} PRIVATE
        -Wl,--version-script=${script} -Wl,--no-undefined -Wl,--no-as-needed -Wl,-z,now)
endfunction()
