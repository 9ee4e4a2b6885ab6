#include "check.h"
#include "params.h"

static struct params ps;
static struct error error;

static bool parse(const char *text)
{
	error = (struct error){"", ""};
	return params_parse(&ps, text, &error);
}

static void shapes(void)
{
	char huge[2000];

	CHECK(parse(NULL) && ps.n == 0);
	CHECK(parse("") && ps.n == 0);
	CHECK(parse("a=1,b=,c=x=y") && ps.n == 3);
	CHECK(strcmp(params_text(&ps, "c"), "x=y") == 0);
	CHECK(strcmp(params_text(&ps, "b"), "") == 0);
	CHECK(params_text(&ps, "d") == NULL);
	CHECK(!params_done(&ps, "b c", &error));
	CHECK(strstr(error.text, "'a'") && strcmp(error.accepted, "b c") == 0);
	CHECK(!parse("a"));
	CHECK(!parse("=1"));
	CHECK(!parse("a=1,"));
	CHECK(!parse("a=1,a=2") && strstr(error.text, "twice"));
	memset(huge, 'a', sizeof(huge));
	huge[1] = '=';
	huge[sizeof(huge) - 1] = '\0';
	CHECK(!parse(huge));
	for (int i = 0; i < 30; i++)
		snprintf(huge + i * 6, 20, "k%02d=1,", i);
	CHECK(!parse(huge) && strstr(error.text, "more than"));
}

static void numbers(void)
{
	static const char *const bad[] = {"a=-1", "a=",	  "a=+1", "a= 1",
					  "a=1x", "a=11", "a=0",  "a=99999999999999999999"};
	uint64_t n = 42;
	double r = 42;

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK(parse(bad[i]));
		CHECK(!params_u64(&ps, "a", 1, 10, &n, &error));
		CHECK(strstr(error.accepted, "1..10"));
		CHECK_EQ(n, 42);
	}
	CHECK(parse("a=0x0a") && params_u64(&ps, "a", 1, 10, &n, &error) && n == 10);
	CHECK(parse("a=010") && params_u64(&ps, "a", 1, 10, &n, &error) && n == 10);
	CHECK(parse("b=7") && params_u64(&ps, "a", 1, 10, &n, &error) && n == 10);
	CHECK(parse("a=18446744073709551615") && params_u64(&ps, "a", 0, UINT64_MAX, &n, &error) &&
	      n == UINT64_MAX);
	CHECK(parse("a=nan") && !params_real(&ps, "a", 0, 1, &r, &error));
	CHECK(parse("a=inf") && !params_real(&ps, "a", 0, 1, &r, &error));
	CHECK(parse("a=1.5") && !params_real(&ps, "a", 0, 1, &r, &error));
	CHECK(parse("a=") && !params_real(&ps, "a", 0, 1, &r, &error) && r == 42);
	CHECK(parse("a=2.5e-1") && params_real(&ps, "a", 0, 1, &r, &error) && r == 0.25);
}

static void words_and_hex(void)
{
	static const char *const words[] = {"drop", "retry", NULL};
	unsigned int which = 9;
	uint8_t out[4] = {0};
	size_t len = 0;

	CHECK(parse("p=retry") && params_word(&ps, "p", words, &which, &error) && which == 1);
	CHECK(parse("p=ret") && !params_word(&ps, "p", words, &which, &error));
	CHECK(strcmp(error.accepted, "drop, retry") == 0);
	CHECK(parse("h=00aBfF") && params_hex(&ps, "h", out, 4, &len, &error) && len == 3);
	CHECK(out[0] == 0 && out[1] == 0xab && out[2] == 0xff);
	CHECK(parse("h=0") && !params_hex(&ps, "h", out, 4, &len, &error));
	CHECK(parse("h=0g") && !params_hex(&ps, "h", out, 4, &len, &error));
	CHECK(parse("h=0011223344") && !params_hex(&ps, "h", out, 4, &len, &error));
}

void test_params(void)
{
	shapes();
	numbers();
	words_and_hex();
}

#include "stream.h"

static struct stream_spec spec;

static struct stream_spec *stream(const char *text)
{
	return parse(text) && stream_parse(&spec, &ps, 2, 1526, &error) ? &spec : NULL;
}

#define HEADER "header=0200000000010200000000020800"

static void load_refused(const char *text)
{
	const struct load before = spec.load;

	CHECK(parse(text) && !stream_set_load(&spec, &ps, &error));
	CHECK(error.text[0] && error.accepted[0]);
	CHECK(memcmp(&before, &spec.load, sizeof(before)) == 0);
}

void test_stream(void)
{
	uint8_t frame[60];

	CHECK(stream("id=255,tx_port=0,rx_port=1,size=64," HEADER));
	CHECK(spec.checksum.ip == -1 && spec.checksum.udp == -1 && spec.header_len == 14);
	memset(frame, 0xff, sizeof(frame));
	stream_frame(&spec, frame);
	CHECK(frame[13] == 0 && frame[12] == 8 && frame[14] == 0 && frame[59] == 0);
	trailer_prefill(frame + 42, 7, 255, 3);
	CHECK(memcmp(frame + 42, "VNP\x07\xff\x03\0\0", 8) == 0);

	CHECK(parse("stream=255,offset=6,width=2,count=5,mode=carry"));
	CHECK(!stream_add_field(&spec, &ps, NULL, 0, &error) && spec.n_fields == 0);
	CHECK(parse("stream=255,offset=6,width=2,count=5"));
	CHECK(stream_add_field(&spec, &ps, NULL, 0, &error) && spec.n_fields == 1);
	CHECK(parse("stream=255,offset=7,width=2,count=5"));
	CHECK(!stream_add_field(&spec, &ps, NULL, 0, &error) && strstr(error.text, "overlap"));

	CHECK(parse("stream=255,rate=12.5") && stream_set_load(&spec, &ps, &error));
	CHECK(spec.load.rate == 12.5 && !spec.load.counted && !spec.load.max);
	load_refused("stream=255,rate=max");
	load_refused("stream=255,rate=-1");
	load_refused("stream=255,rate=1e10");
	load_refused("stream=255,rate=0.0001");
	load_refused("stream=255,rate=0,count=5");
	load_refused("stream=255,rate=5,count=x");
	load_refused("stream=255");
	CHECK(parse("stream=255,rate=max,count=9") && stream_set_load(&spec, &ps, &error));
	CHECK(spec.load.max && spec.load.count == 9);

	CHECK(!stream("id=256,tx_port=0,rx_port=1,size=64," HEADER));
	CHECK(!stream("id=1,tx_port=2,rx_port=1,size=64," HEADER) && strstr(error.accepted, "0..1"));
	CHECK(!stream("id=1,tx_port=0,rx_port=1,size=63," HEADER));
	CHECK(!stream("id=1,tx_port=0,rx_port=1,size=1527," HEADER));
	CHECK(!stream("id=1,tx_port=0,rx_port=1,size=64,header=0102"));
	CHECK(!stream("id=1,tx_port=0,rx_port=1,size=64"));
	CHECK(!stream("id=1,tx_port=0,rx_port=1,size=64,colour=red," HEADER));
}
