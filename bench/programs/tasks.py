"""Twenty tasks, each with a program that solves it and the right answer, which is computed without any tool.

The scripted model makes the calls of a program one by one, or sends the whole program. So both ways make equal calls.
"""

from collections import Counter
from typing import Any

from bench.programs.records import Tables
from bench.programs.task import CSV, EVERY, ToolTask, names_of, row_of, rows_with


def _won(t: Tables, customer: int) -> int:
    return sum(row["amount"] for row in rows_with(t["deals"], customer=customer, stage="won"))


def _stock_value(t: Tables) -> list[list[Any]]:
    return [
        [each["name"], sum(row["price"] * row["stock"] for row in rows_with(t["products"], supplier=each["id"]))]
        for each in t["suppliers"]
    ]


def _busiest(t: Tables) -> list[Any]:
    closed = Counter(row["employee"] for row in rows_with(t["tickets"], state="closed"))
    number, count = min(closed.items(), key=lambda item: (-item[1], item[0]))
    return [row_of(t["employees"], number)["name"], count]


def _regions(t: Tables) -> dict[str, int]:
    return {
        region: sum(_won(t, each["id"]) for each in t["customers"] if each["city"] in cities)
        for region, cities in {"south": ["Rome"], "north": ["Oslo"], "west": ["Lyon", "Porto"]}.items()
    }


def _slow_replies(t: Tables) -> list[str]:
    slow = {row["ticket"] for row in t["replies"] if row["hours"] > 60}
    return sorted({row_of(t["customers"], row_of(t["tickets"], each)["customer"])["name"] for each in slow})


TASKS: tuple[ToolTask, ...] = (
    ToolTask(
        "What is the total amount of the won deals of our customers in Rome?",
        EVERY
        + """\
answer = 0
for customer in every(tools.crm_find_customers, field="city", value="Rome"):
    deals = every(tools.crm_find_deals, field="customer", value=str(customer["id"]))
    answer += sum(deal["amount"] for deal in deals if deal["stage"] == "won")
""",
        lambda t: sum(_won(t, each["id"]) for each in rows_with(t["customers"], city="Rome")),
    ),
    ToolTask(
        "For each supplier, find its products and give the value of the stock: price times stock.",
        EVERY
        + """\
answer = []
for supplier in every(tools.shop_list_suppliers):
    products = every(tools.shop_find_products, field="supplier", value=str(supplier["id"]))
    answer.append([supplier["name"], sum(each["price"] * each["stock"] for each in products)])
""",
        _stock_value,
    ),
    ToolTask(
        "Which employee has closed the most tickets? Find the closed tickets and get the employee.",
        EVERY
        + """\
from collections import Counter
closed = Counter(ticket["employee"] for ticket in every(tools.desk_find_tickets, field="state", value="closed"))
number, count = min(closed.items(), key=lambda item: (-item[1], item[0]))
answer = [tools.staff_get_employee(id=number)["name"], count]
""",
        _busiest,
    ),
    ToolTask(
        "How many days were the employees of each team absent? List the teams and find the employees and absences.",
        EVERY
        + """\
answer = {}
for team in every(tools.staff_list_teams):
    answer[team["name"]] = sum(
        absence["days"]
        for employee in every(tools.staff_find_employees, field="team", value=str(team["id"]))
        for absence in every(tools.staff_find_absences, field="employee", value=str(employee["id"]))
    )
""",
        lambda t: {
            team["name"]: sum(
                row["days"] for row in t["absences"] if row_of(t["employees"], row["employee"])["team"] == team["id"]
            )
            for team in t["teams"]
        },
    ),
    ToolTask(
        "Count the tickets that are high priority, low priority, open and closed.",
        """\
answer = [tools.desk_count_tickets(field="priority", value=value)["count"] for value in ("high", "low")]
answer += [tools.desk_count_tickets(field="state", value=value)["count"] for value in ("open", "closed")]
""",
        lambda t: [
            *(len(rows_with(t["tickets"], priority=value)) for value in ("high", "low")),
            *(len(rows_with(t["tickets"], state=value)) for value in ("open", "closed")),
        ],
    ),
    ToolTask(
        "Which products have no stock left or fewer than 3 pieces, and from which supplier are they? "
        "List the products, and get each product and supplier.",
        EVERY
        + """\
answer = []
for product in every(tools.shop_list_products):
    product = tools.shop_get_product(id=product["id"])
    if product["stock"] < 3:
        answer.append([product["name"], tools.shop_get_supplier(id=product["supplier"])["name"]])
""",
        lambda t: [
            [row["name"], row_of(t["suppliers"], row["supplier"])["name"]] for row in t["products"] if row["stock"] < 3
        ],
    ),
    ToolTask(
        "Read regions.csv from the workspace. What is the won amount of deals of the customers in each region?",
        EVERY
        + CSV
        + """\
answer = {}
for row in table("regions.csv"):
    for customer in every(tools.crm_find_customers, field="city", value=row["city"]):
        deals = every(tools.crm_find_deals, field="customer", value=str(customer["id"]))
        won = sum(deal["amount"] for deal in deals if deal["stage"] == "won")
        answer[row["region"]] = answer.get(row["region"], 0) + won
""",
        _regions,
    ),
    ToolTask(
        "Write a file report.csv with one line for each customer in Oslo: name, number of orders. "
        "Find the customers, count the orders, and tell me how many lines there are.",
        EVERY
        + """\
lines = ["name,orders"]
for customer in every(tools.crm_find_customers, field="city", value="Oslo"):
    count = tools.shop_count_orders(field="customer", value=str(customer["id"]))["count"]
    lines.append(f"{customer['name']},{count}")
tools.file_system(action="write", path="report.csv", content="\\n".join(lines))
answer = [len(lines) - 1, lines[1]]
""",
        lambda t: [
            len(oslo := rows_with(t["customers"], city="Oslo")),
            f"{oslo[0]['name']},{len(rows_with(t['orders'], customer=oslo[0]['id']))}",
        ],
    ),
    ToolTask(
        "Which customers had to wait more than 60 hours for a reply? List the replies, get each reply, "
        "its ticket and the customer.",
        EVERY
        + """\
names = set()
for reply in every(tools.desk_list_replies):
    reply = tools.desk_get_reply(id=reply["id"])
    if reply["hours"] > 60:
        ticket = tools.desk_get_ticket(id=reply["ticket"])
        names.add(tools.crm_get_customer(id=ticket["customer"])["name"])
answer = sorted(names)
""",
        _slow_replies,
    ),
    ToolTask(
        "Set the stage of every open deal of customer 5 and customer 7 to lost: find the deals and update each deal. "
        "How many did you update?",
        EVERY
        + """\
answer = 0
for customer in (5, 7):
    for deal in every(tools.crm_find_deals, field="customer", value=str(customer)):
        if deal["stage"] == "open":
            tools.crm_update_deal(id=deal["id"], field="stage", value="lost")
            answer += 1
""",
        lambda t: (
            len(rows_with(t["deals"], customer=5, stage="open")) + len(rows_with(t["deals"], customer=7, stage="open"))
        ),
    ),
    ToolTask(
        "Find the small customers in Lyon, and count the tickets of each customer.",
        EVERY
        + """\
answer = []
for customer in every(tools.crm_find_customers, field="city", value="Lyon"):
    if customer["segment"] == "small":
        count = tools.desk_count_tickets(field="customer", value=str(customer["id"]))["count"]
        answer.append([customer["name"], count])
""",
        lambda t: [
            [row["name"], len(rows_with(t["tickets"], customer=row["id"]))]
            for row in rows_with(t["customers"], city="Lyon", segment="small")
        ],
    ),
    ToolTask(
        "What is the average salary of the employees of each team? List the teams and find their employees.",
        EVERY
        + """\
answer = {}
for team in every(tools.staff_list_teams):
    salaries = [
        each["salary"] for each in every(tools.staff_find_employees, field="team", value=str(team["id"]))
    ]
    answer[team["name"]] = round(sum(salaries) / max(1, len(salaries)), 2)
""",
        lambda t: {
            team["name"]: round(
                sum(row["salary"] for row in rows_with(t["employees"], team=team["id"]))
                / max(1, len(rows_with(t["employees"], team=team["id"]))),
                2,
            )
            for team in t["teams"]
        },
    ),
    ToolTask(
        "What are the returned orders worth? Find the orders with the status returned, and get each product's price.",
        EVERY
        + """\
prices, answer = {}, 0
for order in every(tools.shop_find_orders, field="status", value="returned"):
    if order["product"] not in prices:
        prices[order["product"]] = tools.shop_get_product(id=order["product"])["price"]
    answer += prices[order["product"]] * order["quantity"]
""",
        lambda t: sum(
            row["quantity"] * row_of(t["products"], row["product"])["price"]
            for row in rows_with(t["orders"], status="returned")
        ),
    ),
    ToolTask(
        "Create a note for each customer of Porto with the title 'Visit', and count the notes with that name then.",
        EVERY
        + """\
for customer in every(tools.crm_find_customers, field="city", value="Porto"):
    tools.crm_create_note(fields={"name": "Visit", "customer": customer["id"], "words": 0})
answer = tools.crm_count_notes(field="name", value="Visit")["count"]
""",
        lambda t: len(rows_with(t["customers"], city="Porto")),
    ),
    ToolTask(
        "Which articles about repair have more than 300 views? Find the articles.",
        EVERY
        + """\
articles = every(tools.desk_find_articles, field="topic", value="repair")
answer = [each["name"] for each in articles if each["views"] > 300]
""",
        lambda t: [row["name"] for row in rows_with(t["articles"], topic="repair") if row["views"] > 300],
    ),
    ToolTask(
        "Read rates.csv. What are the products of each supplier worth with the tax of its country? "
        "Find the suppliers of each country and their products.",
        EVERY
        + CSV
        + """\
answer = {}
for row in table("rates.csv"):
    total = 0
    for supplier in every(tools.shop_find_suppliers, field="country", value=row["country"]):
        products = every(tools.shop_find_products, field="supplier", value=str(supplier["id"]))
        total += sum(each["price"] * each["stock"] for each in products)
    answer[row["country"]] = total * (100 + int(row["rate"])) // 100
""",
        lambda t: {
            country: sum(
                row["price"] * row["stock"]
                for row in t["products"]
                if row_of(t["suppliers"], row["supplier"])["country"] == country
            )
            * (100 + rate)
            // 100
            for country, rate in (("Italy", 22), ("Norway", 25), ("France", 20))
        },
    ),
    ToolTask(
        "Who leads each team, and in which city does the leader work? List the teams, get each team and employee.",
        EVERY
        + """\
answer = []
for team in every(tools.staff_list_teams):
    lead = tools.staff_get_employee(id=tools.staff_get_team(id=team["id"])["lead"])
    answer.append([team["name"], lead["name"], lead["city"]])
""",
        lambda t: [
            [team["name"], (lead := row_of(t["employees"], team["lead"]))["name"], lead["city"]] for team in t["teams"]
        ],
    ),
    ToolTask(
        "Which customers have open tickets with high priority, and which employee is their manager? "
        "Find the tickets, and get the customers and employees.",
        EVERY
        + """\
answer, seen = [], set()
for ticket in every(tools.desk_find_tickets, field="priority", value="high"):
    if ticket["state"] == "open" and ticket["customer"] not in seen:
        seen.add(ticket["customer"])
        customer = tools.crm_get_customer(id=ticket["customer"])
        answer.append([customer["name"], tools.staff_get_employee(id=customer["manager"])["name"]])
""",
        lambda t: [
            [(customer := row_of(t["customers"], each))["name"], row_of(t["employees"], customer["manager"])["name"]]
            for each in dict.fromkeys(row["customer"] for row in rows_with(t["tickets"], priority="high", state="open"))
        ],
    ),
    ToolTask(
        "Close tickets 3, 9, 12 and 20: update the state of each ticket to closed, and get the tickets to check it.",
        """\
for number in (3, 9, 12, 20):
    tools.desk_update_ticket(id=number, field="state", value="closed")
answer = [tools.desk_get_ticket(id=number)["state"] for number in (3, 9, 12, 20)]
""",
        lambda _: ["closed"] * 4,
    ),
    ToolTask(
        "Which five customers ordered the most pieces? List the customers and find the orders of each customer.",
        EVERY
        + """\
pieces = {}
for customer in every(tools.crm_list_customers):
    orders = every(tools.shop_find_orders, field="customer", value=str(customer["id"]))
    pieces[customer["name"]] = sum(order["quantity"] for order in orders)
answer = sorted(pieces, key=lambda name: (-pieces[name], name))[:5]
""",
        lambda t: sorted(
            names_of(t["customers"]),
            key=lambda name: (
                -sum(
                    row["quantity"]
                    for row in t["orders"]
                    if row["customer"] == next(c["id"] for c in t["customers"] if c["name"] == name)
                ),
                name,
            ),
        )[:5],
    ),
)
