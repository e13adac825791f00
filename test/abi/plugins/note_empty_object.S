    .section .note.capstan.manifest,"a",%note
    .balign 4
    .long 8, 4, 1
    .ascii "CAPSTAN\0"
    .ascii "{}  "
    .section .note.GNU-stack,"",%progbits
