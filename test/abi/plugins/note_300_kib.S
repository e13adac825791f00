    .section .note.capstan.manifest,"a",%note
    .balign 4
    .long 8, 307200, 1
    .ascii "CAPSTAN\0"
    .fill 307200, 1, 0x20
    .section .note.GNU-stack,"",%progbits
