    .section .note.capstan.manifest,"a",%note
    .balign 4
    .long 8, 8, 1
    .ascii "CAPSTAN\0"
    .ascii "{\"id\":  "
    .section .note.GNU-stack,"",%progbits
