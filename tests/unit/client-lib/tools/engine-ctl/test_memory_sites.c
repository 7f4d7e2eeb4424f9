/* Names of C++ that fit on a screen. */
#include "engine-ctl/memory_sites.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name, *expected;
} names[] = {
    { "load_level", "load_level" },
    { "world::grow()", "world::grow()" },
    { "std::vector<int>::push_back(int const&)", "std::vector<int>::push_back(int const&)" },
    { "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(__gnu_cxx::__normal_"
      "iterator<int*, std::vector<int> >, int&&)",
      "void std::vector<...>::_M_realloc_insert<int>(...)" },
    { "std::map<int, std::vector<std::string> >::operator[](int&&)",
      "std::map<...>::operator[](int&&)" },
    { "std::ostream& operator<< <std::char_traits<char>, std::allocator<char> >(int)",
      "std::ostream& operator<< <...>(int)" },
    { "list<item>::iterator::operator->() const", "list<item>::iterator::operator->() const" },
    { "(anonymous namespace)::run()", "(anonymous namespace)::run()" },
    { "cut<within, a, very, long, list, of, argum", "cut<within, a, very, long, list, of, argum" },
    { "operator", "operator" },
    { "", "" },
};

START_TEST(long_lists_are_left_out_of_a_name)
{
    char name[256];

    snprintf(name, sizeof name, "%s", names[_i].name);
    memory_name_shorten(name);
    ck_assert_str_eq(name, names[_i].expected);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory_sites");
    TCase *tcase = tcase_create("names");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, long_lists_are_left_out_of_a_name, 0,
                        (int)(sizeof names / sizeof names[0]));
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
