#include "check.h"
#include "steps.h"

static struct load_steps s;
static struct error error;

static bool parse(const char *text)
{
	return steps_parse(&s, text, 1000, &error);
}

static void adds_up(double rate)
{
	uint64_t sum = 0;
	double exact = 0;

	for (unsigned int i = 0; i < s.n; i++) {
		sum += steps_count(&s, rate, i);
		exact += rate * s.step[i].share * s.step[i].seconds;
	}
	CHECK((double)sum > exact - 1 && (double)sum < exact + 1);
}

void test_steps(void)
{
	CHECK(parse("1@60/0.5@10"));
	CHECK_EQ(s.n, 2);
	CHECK_EQ(s.step[1].from, 60000);
	CHECK_EQ(steps_count(&s, 1000, 0), 60000);
	CHECK_EQ(steps_count(&s, 1000, 1), 5000);
	CHECK(steps_seconds(&s) > 69.999 && steps_seconds(&s) < 70.001);
	CHECK(parse("0.333@1.7/1@0.01/0@3/0.9@2"));
	CHECK_EQ(s.n, 4);
	CHECK_EQ(steps_count(&s, 1000, 2), 0);
	adds_up(1);
	adds_up(99.7);
	adds_up(11700000.123);
	CHECK(parse("1e-2@1e3"));
	static const char *const refused[] = {
		"",	"1",	    "1@",    "@1",    "1@0",	"2@1",	"-1@1", "1@-1",
		"1@1/", "1@1//1@1", "nan@1", "1@inf", "0x1@1x", "1@1 ", " 1@1", "1@2000000"};
	for (unsigned int i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		CHECK(!parse(refused[i]));
	{
		char many[33 * 4 + 1] = "";

		for (int i = 0; i < 32; i++)
			strcat(many, i ? "/1@1" : "1@1");
		CHECK(parse(many));
		strcat(many, "/1@1");
		CHECK(!parse(many));
	}
}
