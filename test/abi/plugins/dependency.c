int capstan_test_dependency(void);
__attribute__((visibility("default"))) int capstan_test_dependency(void) {
    return 0;
}
