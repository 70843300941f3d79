# twin_library(NAME SOURCES ... EXPORTS pattern...): libNAME.so whose dynamic symbols are exactly the patterns.
# Standard library templates would otherwise leak out as weak symbols and meet torch's, built with another ABI.
function(twin_library name)
    cmake_parse_arguments(ARG "" "" "SOURCES;EXPORTS" ${ARGN})
    add_library(${name} SHARED ${ARG_SOURCES})
    set_target_properties(${name} PROPERTIES UNITY_BUILD_MODE GROUP)
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

# compile_together(name...): name.cpp and its like as one unit, for most of a small file's time is headers and templates
# that its neighbours want too. Six at most, so that a change of one stays cheap. They may not give one name of a namespace
# two meanings.
function(compile_together first)
    get_filename_component(group ${first} NAME)
    foreach(name ${first} ${ARGN})
        if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${name}.cpp)
            message(FATAL_ERROR "${name}.cpp is not in ${CMAKE_CURRENT_SOURCE_DIR}; take it out of compile_together there")
        endif()
        set_source_files_properties(${name}.cpp PROPERTIES UNITY_GROUP ${group})
    endforeach()
endfunction()
