#include "args.h"
#include "check.h"

static struct options o;
static struct error error;
static bool help;

static bool parse(const char *a, const char *b, const char *c)
{
	char *argv[] = {(char *)"loadgen", (char *)a, (char *)b, (char *)c, NULL};
	int argc = 1 + (a != NULL) + (b != NULL) + (c != NULL);

	help = false;
	error = (struct error){"", ""};
	return args_parse(&o, argc, argv, &help, &error);
}

void test_args(void)
{
	CHECK(parse(NULL, NULL, NULL) && o.rx_queues[0] == 1 && o.mtu == 1500 && !o.mtu_given);
	CHECK(parse("--rx-queues", "3", "--turn-us=20") && o.rx_queues[15] == 3 && o.turn_us == 20);
	CHECK(parse("--turn-us=100", "--priority=2", "--share=65") && o.priority == 2 &&
	      o.share == 65);
	CHECK(!parse("--priority=1", NULL, NULL) && strstr(error.accepted, "--turn-us"));
	CHECK(!parse("--share=0", NULL, NULL) && strstr(error.accepted, "1..100"));
	CHECK(parse("--tx-queues=2,1,16", NULL, NULL) && o.tx_queues[0] == 2 && o.tx_queues[1] == 1);
	CHECK(o.tx_queues[2] == 16 && o.tx_queues[15] == 16 && o.rx_queues[0] == 1);
	CHECK(!parse("--tx-queues=2,,1", NULL, NULL) && strstr(error.accepted, "1..16"));
	CHECK(!parse("--tx-queues=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", NULL, NULL));
	CHECK(parse("--mtu=9262", NULL, NULL) && o.mtu == 9262 && o.mtu_given);
	CHECK(parse("--room=9728", NULL, NULL) && o.room == 9728);
	CHECK(parse("--help", NULL, NULL) && help);
	CHECK(!o.nic_time && parse("--nic-time=1", NULL, NULL) && o.nic_time && o.turn_us == 0);
	CHECK(!parse("--nic-time=2", NULL, NULL));
	CHECK(!parse("--mtu=9263", NULL, NULL) && strstr(error.accepted, "68..9262"));
	CHECK(!parse("--rx-queues=0", NULL, NULL));
	CHECK(!parse("--rx-queues=1x", NULL, NULL));
	CHECK(!parse("--rx-queues=", NULL, NULL));
	CHECK(!parse("--rx-queues", NULL, NULL) && strstr(error.text, "without a value"));
	CHECK(!parse("--bogus=1", NULL, NULL) && strstr(error.accepted, "--help"));
	CHECK(parse("--map=tx0.1@2,rx3.0@1", NULL, NULL) && o.n_map == 2);
	CHECK(o.map[0].tx && o.map[0].port == 0 && o.map[0].queue == 1 && o.map[0].worker == 2);
	CHECK(!o.map[1].tx && o.map[1].port == 3 && o.map[1].worker == 1);
	CHECK(!parse("--map=tx0.1", NULL, NULL));
	CHECK(!parse("--map=tr0.1@1", NULL, NULL));
	CHECK(!parse("--map=tx0.1@1x", NULL, NULL));
	CHECK(!parse("--map=", NULL, NULL));
}
